"""Cuts the projection matrices of a transformers model into heads, one LayerHeads per layer, float64."""
import numpy as np

from weights_reference import LayerHeads


def split_columns(weight: np.ndarray, heads: int) -> np.ndarray:
    """[d, heads * k] -> [heads, d, k]"""
    return weight.reshape(len(weight), heads, -1).transpose(1, 0, 2)


def array(parameter) -> np.ndarray:
    return parameter.detach().double().numpy()


def linear(module) -> np.ndarray:
    """torch.nn.Linear stores [out, in]; here [in, out]."""
    return array(module.weight).T


def from_linears(query, key, value, output, heads: int, kv_heads: int) -> LayerHeads:
    W_O = linear(output)  # [h * v, d]
    return LayerHeads(
        split_columns(linear(query), heads),
        split_columns(linear(key), kv_heads),
        split_columns(linear(value), kv_heads),
        W_O.reshape(heads, -1, W_O.shape[1]),
    )


def bert_layers(model):
    h = model.config.num_attention_heads
    for layer in model.base_model.encoder.layer:
        own, out = layer.attention.self, layer.attention.output
        yield from_linears(own.query, own.key, own.value, out.dense, h, h)


def albert_layers(model):
    config, groups = model.config, model.base_model.encoder.albert_layer_groups
    h = config.num_attention_heads
    for index in range(config.num_hidden_layers):
        own = groups[int(index / (config.num_hidden_layers / config.num_hidden_groups))].albert_layers[0].attention
        yield from_linears(own.query, own.key, own.value, own.dense, h, h)


def distilbert_layers(model):
    h = model.config.n_heads
    for layer in model.base_model.transformer.layer:
        own = layer.attention
        yield from_linears(own.q_lin, own.k_lin, own.v_lin, own.out_lin, h, h)


def gpt2_layers(model):
    h = model.config.n_head
    for block in model.base_model.h:
        W_Q, W_K, W_V = np.split(array(block.attn.c_attn.weight), 3, axis=1)  # Conv1D: already [in, out]
        W_O = array(block.attn.c_proj.weight)
        yield LayerHeads(
            split_columns(W_Q, h), split_columns(W_K, h), split_columns(W_V, h), W_O.reshape(h, -1, W_O.shape[1])
        )


def llama_layers(model):
    config = model.config
    for layer in model.base_model.layers:
        own = layer.self_attn
        yield from_linears(
            own.q_proj, own.k_proj, own.v_proj, own.o_proj, config.num_attention_heads, config.num_key_value_heads
        )


READERS = {"albert": albert_layers, "distilbert": distilbert_layers, "gpt2": gpt2_layers}
READERS |= dict.fromkeys(("bert", "electra", "roberta", "xlm-roberta"), bert_layers)
READERS |= dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), llama_layers)


def layers_of(model) -> list[LayerHeads]:
    return list(READERS[model.config.model_type](model))
