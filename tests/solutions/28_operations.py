import numpy as np


def log_softmax(x):
    s = x - x.max(axis=-1, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))


def soft_cross_entropy_forward(logits, target_logits, *, temperature=1.0):
    log_p, log_q = log_softmax(logits / temperature), log_softmax(target_logits / temperature)
    n = max(1, logits[..., 0].size)
    loss = -(temperature**2) * (np.exp(log_q) * log_p).sum() / n
    return loss.astype(logits.dtype), (log_p, log_q, n, temperature)


def soft_cross_entropy_backward(dloss, cache):
    log_p, log_q, n, temperature = cache
    p, q = np.exp(log_p), np.exp(log_q)
    factor = dloss * temperature / n
    dlogits = (p - q) * factor
    dtarget = -q * (log_p - (q * log_p).sum(axis=-1, keepdims=True)) * factor
    return dlogits.astype(p.dtype), dtarget.astype(p.dtype)


def cosine_loss_forward(a, b, *, eps=1e-12):
    aa, bb = (a * a).sum(axis=-1, keepdims=True) + eps, (b * b).sum(axis=-1, keepdims=True) + eps
    root = np.sqrt(aa * bb)
    cos = (a * b).sum(axis=-1, keepdims=True) / root
    n = max(1, cos.size)
    return ((1 - cos).sum() / n).astype(a.dtype), (a, b, aa, bb, root, cos, n)


def cosine_loss_backward(dloss, cache):
    a, b, aa, bb, root, cos, n = cache
    share = -dloss / n
    da = (b / root - cos * a / aa) * share
    db = (a / root - cos * b / bb) * share
    return da.astype(a.dtype), db.astype(a.dtype)
