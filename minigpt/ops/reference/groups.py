"""Heads of keys and values that several heads of queries share (Ainslie et al. 2023, section 2.2)."""

def split_packed(qkv, n_head: int, n_kv_head: int):
    """qkv (B,T,(NH+2G)D) -> q (B,NH,T,D), k and v (B,G,T,D), where G is n_kv_head

    The heads of queries stand first, then those of keys, then those of values.
    """
    b, t, width = qkv.shape
    n_all = n_head + 2 * n_kv_head
    heads = qkv.reshape(b, t, n_all, width // n_all).swapaxes(1, 2)
    first_value = n_head + n_kv_head
    return heads[:, :n_head], heads[:, n_head:first_value], heads[:, first_value:]


def repeat_heads(x, group: int):
    """(B,G,T,D) -> (B,G*group,T,D): each head so many times, one behind the other, for the queries of its group."""
    if group == 1:
        return x
    return x.repeat(group, axis=1)


def sum_heads(dx, group: int):
    """(B,G*group,T,D) -> (B,G,T,D): undoes repeat_heads: what was used by a group gets the sum of its gradients."""
    if group == 1:
        return dx
    b, n_head, t, d = dx.shape
    groups = dx.reshape(b, n_head // group, group, t, d)
    return groups.sum(axis=2)
