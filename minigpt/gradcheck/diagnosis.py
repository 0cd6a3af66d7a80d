"""What is likely wrong with a gradient: it is compared with the true one and with everything at hand."""

import numpy as np

from minigpt.device.arrays import Array
from minigpt.gradcheck import mistakes, outputs, terms
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.results import Result

MISTAKES_OF_SHAPE = (  # where the shape is not the true one
    mistakes.not_finite,
    mistakes.zero_everywhere,
    mistakes.transposed,
    mistakes.swapped_gradients,
    mistakes.not_reshaped,
    mistakes.not_summed,
    mistakes.step_left_out,
    mistakes.summed_over_wrong_axes,
)
MISTAKES = (  # the most definite first, then those that take time, then what only describes
    mistakes.not_finite,
    mistakes.zero_everywhere,
    outputs.right_but_for_eps,
    mistakes.right_but_for_digits,
    mistakes.constant_factor,
    mistakes.transposed,
    mistakes.swapped_gradients,
    mistakes.step_left_out,
    mistakes.wrong_branch,
    mistakes.sigmoid_for_softmax,
    mistakes.wrong_term,
    mistakes.wrong_factor,
    mistakes.swapped_parts,
    mistakes.wrong_places,
    outputs.weights_that_do_not_sum_to_one,
    outputs.softmax_over_another_axis,
    mistakes.forgotten_constant,
    outputs.another_mask,
    outputs.variance_with_one_less,
    mistakes.forgotten_input,
    mistakes.forgotten_scale,
    mistakes.wrong_rows_of_a_table,
    mistakes.wrong_rows_of_targets,
    outputs.rows_that_see_nothing,
    mistakes.factor_of_each_row,
    terms.wrong_term_of_each_row,
    terms.direct_part_missing,
    mistakes.other_zeros,
    mistakes.sum_not_zero,
    terms.sum_not_zero_before_a_product,
    mistakes.nearly_right,
    mistakes.wrong_slope,
    mistakes.where_it_is_wrong,
)


def explain(mine: Array, true: Array, evidence: Evidence) -> str:
    """One sentence about a gradient (or an output) that is not the true one: that of the first mistake that fits."""
    right_shape = mine.shape == true.shape
    kinds = MISTAKES if right_shape else MISTAKES_OF_SHAPE
    sentence = ""
    with np.errstate(all="ignore"):
        for mistake in kinds:
            sentence = mistake(mine, true, evidence)
            if sentence:
                break
    sentence = sentence or ""
    if right_shape:
        return sentence
    return f"{sentence} It has shape {mine.shape}, expected {true.shape}.".strip()


def only_nearest_to_the_loss(results: list[Result], names: list[str]) -> list[Result]:
    """The results of a model, in which of its wrong parameters only the last one is explained: it may cause the others.

    names: of the parameters, in the order of the forward pass.
    """
    wrong = []
    for result in results:
        if result.diagnosis and result.name in names:
            wrong.append(result.name)
    if not wrong:
        return results
    *others, nearest = wrong
    hint = f"It may follow from {nearest}, which is nearer to the loss."
    changed = []
    for result in results:
        if result.name in others:
            result = result._replace(diagnosis=hint)
        changed.append(result)
    return changed
