"""A package that is not here."""

import torch
