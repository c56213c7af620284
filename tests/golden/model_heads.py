"""Splits the projection matrices of a transformers model into heads: one LayerHeads per layer, float64."""
import numpy as np

from weights_reference import LayerHeads


def split_columns(weight: np.ndarray, heads: int) -> np.ndarray:
    """[d, heads * k] -> [heads, d, k]"""
    return weight.reshape(len(weight), heads, -1).transpose(1, 0, 2)


def array(parameter) -> np.ndarray:
    return parameter.detach().double().numpy()


def linear(module) -> np.ndarray:
    """torch.nn.Linear stores [out, in]; this returns [in, out]."""
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


def split_attention(config, own, names=("q_proj", "k_proj", "v_proj", "o_proj"), kv_heads=None) -> LayerHeads:
    """Separate projections, found by their names."""
    query, key, value, output = (getattr(own, name) for name in names)
    h = config.num_attention_heads
    return from_linears(query, key, value, output, h, kv_heads or getattr(config, "num_key_value_heads", None) or h)


def from_rows(q: np.ndarray, k: np.ndarray, v: np.ndarray, output) -> LayerHeads:
    """q [h, k, d], k and v [g, k, d]: rows of a packed matrix, already split into heads."""
    W_O = linear(output)
    W_Q, W_K, W_V = (rows.transpose(0, 2, 1) for rows in (q, k, v))
    return LayerHeads(W_Q, W_K, W_V, W_O.reshape(len(q), -1, W_O.shape[1]))


def packed_in_turn(packed, output, h: int, g: int) -> LayerHeads:
    """A packed matrix with the rows of all queries, then of all keys, then of all values."""
    weight = array(packed.weight)
    width = len(weight) // (h + 2 * g)
    rows = weight.reshape(h + 2 * g, width, -1)
    return from_rows(rows[:h], rows[h : h + g], rows[h + g :], output)


def packed_by_head(packed, output, h: int) -> LayerHeads:
    """A packed matrix with the query, key and value rows of each head together."""
    weight = array(packed.weight)
    rows = weight.reshape(h, 3, -1, weight.shape[1])
    return from_rows(rows[:, 0], rows[:, 1], rows[:, 2], output)


def packed_by_group(packed, output, h: int, g: int) -> LayerHeads:
    """A packed matrix with the query rows of each group, then its key and its value."""
    weight = array(packed.weight)
    rows = weight.reshape(g, h // g + 2, -1, weight.shape[1])
    queries = rows[:, :-2].reshape(h, *rows.shape[2:])
    return from_rows(queries, rows[:, -2], rows[:, -1], output)


def codegen_attention(config, own) -> LayerHeads:
    """Four blocks of rows, each with the queries, values and keys of a quarter of the heads."""
    h, weight = config.n_head, array(own.qkv_proj.weight)
    rows = weight.reshape(4, 3, h // 4, -1, weight.shape[1])
    q, v, k = (rows[:, part].reshape(h, *rows.shape[3:]) for part in range(3))
    return from_rows(q, k, v, own.out_proj)


def falcon_attention(config, own) -> LayerHeads:
    h, packed, output = config.num_attention_heads, own.query_key_value, own.dense
    if config.new_decoder_architecture:
        return packed_by_group(packed, output, h, config.num_kv_heads)
    return packed_in_turn(packed, output, h, 1) if config.multi_query else packed_by_head(packed, output, h)


def gpt_bigcode_attention(config, own) -> LayerHeads:
    if config.multi_query:
        return packed_in_turn(own.c_attn, own.c_proj, config.n_head, 1)
    return packed_by_head(own.c_attn, own.c_proj, config.n_head)


def bert_like_attention(config, own) -> LayerHeads:
    h = config.num_attention_heads
    ending = "_proj" if hasattr(own.self, "query_proj") else ""
    parts = (getattr(own.self, name + ending) for name in ("query", "key", "value"))
    return from_linears(*parts, own.output.dense, h, h)


OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")
# model_type -> path of the layers, path of a layer's attention, and how to split it
ATTENTIONS = {
    "gpt_neo": ("h", "attn.attention", lambda c, own: split_attention(c, own, OUT_PROJ)),
    "gptj": ("h", "attn", lambda c, own: split_attention(c, own, OUT_PROJ)),
    "codegen": ("h", "attn", codegen_attention),
    "gpt_neox": ("layers", "attention",
                 lambda c, own: packed_by_head(own.query_key_value, own.dense, c.num_attention_heads)),
    "opt": ("decoder.layers", "self_attn", lambda c, own: split_attention(c, own, OUT_PROJ)),
    "bloom": ("h", "self_attention", lambda c, own: packed_by_head(own.query_key_value, own.dense, c.n_head)),
    "falcon": ("h", "self_attention", falcon_attention),
    "gpt_bigcode": ("h", "attn", gpt_bigcode_attention),
    "mpt": ("blocks", "attn", lambda c, own: packed_in_turn(own.Wqkv, own.out_proj, c.n_heads, c.n_heads)),
    "phi": ("layers", "self_attn", lambda c, own: split_attention(c, own, ("q_proj", "k_proj", "v_proj", "dense"))),
    "phi3": ("layers", "self_attn",
             lambda c, own: packed_in_turn(own.qkv_proj, own.o_proj, c.num_attention_heads, c.num_key_value_heads)),
    "deberta-v2": ("encoder.layer", "attention", bert_like_attention),
    "deberta": ("encoder.layer", "attention",
                lambda c, own: packed_by_head(own.self.in_proj, own.output.dense, c.num_attention_heads)),
    "mpnet": ("encoder.layer", "attention.attn", lambda c, own: split_attention(c, own, ("q", "k", "v", "o"))),
    "esm": ("encoder.layer", "attention", bert_like_attention),
    "modernbert": ("layers", "attn",
                   lambda c, own: packed_in_turn(own.Wqkv, own.Wo, c.num_attention_heads, c.num_attention_heads)),
    "vit": ("layers", "attention", split_attention),
}  # fmt: skip
LLAMA_LIKE = (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo", "olmo2", "stablelm", "starcoder2",
    "cohere", "granite", "smollm3", "nemotron", "mixtral", "qwen2_moe", "gpt_oss",
)  # fmt: skip
ATTENTIONS |= dict.fromkeys(LLAMA_LIKE, ("layers", "self_attn", split_attention))

READERS = {"albert": albert_layers, "distilbert": distilbert_layers, "gpt2": gpt2_layers}
READERS |= dict.fromkeys(("bert", "electra", "roberta", "xlm-roberta"), bert_layers)


def find(module, path: str):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def layers_of(model) -> list[LayerHeads]:
    """Returns the layers of a model with one stack; for a text tower within another model, those of the tower."""
    config, base = model.config, model.base_model
    if hasattr(config, "text_config"):
        config, base = config.text_config, base.language_model
    if config.model_type in READERS:
        return list(READERS[config.model_type](model))
    layers, attention, cut = ATTENTIONS[config.model_type]
    return [cut(config, find(layer, attention)) for layer in find(base, layers)]


def t5_stacks(model):
    h, names = model.config.num_heads, ("q", "k", "v", "o")

    def cut(own):
        return from_linears(*(getattr(own, name) for name in names), h, h)

    yield "enc", [cut(block.layer[0].SelfAttention) for block in model.encoder.block]
    yield "dec", [cut(block.layer[0].SelfAttention) for block in model.decoder.block]
    yield "cross", [cut(block.layer[1].EncDecAttention) for block in model.decoder.block]


def bart_stacks(model):
    def cut(own):
        return from_linears(*(getattr(own, name) for name in OUT_PROJ), own.num_heads, own.num_heads)

    base = model.base_model
    yield "enc", [cut(layer.self_attn) for layer in base.encoder.layers]
    yield "dec", [cut(layer.self_attn) for layer in base.decoder.layers]
    yield "cross", [cut(layer.encoder_attn) for layer in base.decoder.layers]


def stacks_of(model) -> dict[str, list[LayerHeads]]:
    """Returns enc, dec and cross of an encoder-decoder model."""
    return dict((t5_stacks if model.config.model_type == "t5" else bart_stacks)(model))
