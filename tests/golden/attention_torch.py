"""Cases whose checkpoint is the state of a torch.nn.MultiheadAttention. The reference is torch's forward pass."""
import numpy as np
import safetensors.torch
import torch

from attention_cases import normal, write
from attention_numpy import Layer, attend
from model_heads import array, split_columns
from weights_reference import analyze_weights


def random_module(heads: int, d: int, **widths) -> torch.nn.MultiheadAttention:
    module = torch.nn.MultiheadAttention(d, heads, batch_first=True, **widths)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def layer_of(module) -> Layer:
    h = module.num_heads
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    W_O = array(module.out_proj.weight).T
    layer = Layer(*(split_columns(array(w).T, h) for w in weights), W_O.reshape(h, -1, W_O.shape[1]))
    if module.in_proj_bias is not None:
        layer.b_q, layer.b_k, layer.b_v = (array(b).reshape(h, -1) for b in module.in_proj_bias.chunk(3))
        layer.b_o = array(module.out_proj.bias)
    return layer


@torch.no_grad()
def arrays_of(module, x, keys, values, key_mask) -> dict:
    """key_mask [m]: 1 = visible (the opposite of torch). torch does not return scores and z: they come from NumPy,
    after its pattern and output were found equal to torch's."""
    module = module.double()
    tensors = [torch.tensor(a, dtype=torch.float64)[None] for a in (x, keys, values)]
    output, pattern = module(
        *tensors, key_padding_mask=torch.tensor(key_mask == 0)[None], need_weights=True, average_attn_weights=False
    )
    layer = layer_of(module)
    mask = np.broadcast_to(key_mask != 0, (len(x), len(keys)))
    own = attend(layer, *(a.astype(np.float64) for a in (x, keys, values)), mask=mask)
    reference = own | {"pattern": pattern[0].numpy(), "output": output[0].numpy()}
    assert np.abs(own["pattern"] - reference["pattern"]).max() < 1e-13
    assert np.abs(own["output"] - reference["output"]).max() < 1e-12
    return analyze_weights([layer]) | {f"{name}_0": value[None] for name, value in reference.items()}


def cross_attention(rng, directory, module, kdim, vdim, config):
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    write(directory, config, {}, "config")
    safetensors.torch.save_file(state, directory / "model.safetensors")
    x, keys, values = normal(rng, 7, module.embed_dim, std=1), normal(rng, 5, kdim, std=1), normal(rng, 5, vdim, std=1)
    key_mask = np.array([1, 1, 0, 1, 0])
    given = {"embeddings_0": x, "key_inputs_0": keys, "value_inputs_0": values, "key_mask_0": key_mask}
    return given | arrays_of(module, x, keys, values, key_mask)


def packed(rng, directory):
    return cross_attention(rng, directory, random_module(3, 12), 12, 12, {"heads": 3})


def separate(rng, directory):
    return cross_attention(rng, directory, random_module(2, 10, kdim=7, vdim=9), 7, 9, {"heads": 2})


CASES = {"attention-torch-packed": packed, "attention-torch-separate": separate}
