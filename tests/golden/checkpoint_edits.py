"""Edits that turn the output of save_pretrained into that of other programs: names, extra tensors, config keys.

A tensor edit maps {name: tensor} to {name: tensor}; a config edit maps the object of config.json.
"""
import torch


def add_bert_extras(tensors: dict) -> dict:
    """Adds a pooler, a next-sentence head and the position_ids buffer, which the forward pass does not use."""
    d = tensors["bert.embeddings.word_embeddings.weight"].shape[1]
    n = tensors["bert.embeddings.position_embeddings.weight"].shape[0]
    return tensors | {
        "bert.pooler.dense.weight": torch.randn(d, d),
        "bert.pooler.dense.bias": torch.randn(d),
        "cls.seq_relationship.weight": torch.randn(2, d),
        "cls.seq_relationship.bias": torch.randn(2),
        "bert.embeddings.position_ids": torch.arange(n)[None],
    }


def add_roberta_extras(tensors: dict) -> dict:
    """Stores the decoder and its bias twice, and the position_ids buffer, as old files do."""
    embedding = "roberta.embeddings.word_embeddings.weight"
    n = tensors["roberta.embeddings.position_embeddings.weight"].shape[0]
    return tensors | {
        "lm_head.decoder.weight": tensors[embedding].clone(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
        "roberta.embeddings.position_ids": torch.arange(n)[None],
    }


def old_norm_names(tensors: dict) -> dict:
    """Renames LayerNorm.weight and .bias to their old names gamma and beta."""
    return {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors.items()
    }


def without_prefix(prefix: str):
    return lambda tensors: {k.removeprefix(prefix): v for k, v in tensors.items()}


def add_causal_buffers(tensors: dict) -> dict:
    """Adds each layer's causal mask, [1, 1, n, n], under a name like that of a bias, as in old GPT-2 checkpoints."""
    n = tensors["wpe.weight"].shape[0]
    layers = {k.split(".")[1] for k in tensors if k.startswith("h.")}
    mask = torch.tril(torch.ones(1, 1, n, n, dtype=torch.uint8))
    return tensors | {f"h.{layer}.attn.bias": mask.clone() for layer in layers}


def add_own_head(tensors: dict) -> dict:
    """Adds a separate output head to a checkpoint whose config says that it is tied."""
    return tensors | {"lm_head.weight": torch.randn_like(tensors["model.embed_tokens.weight"])}


def add_inverse_frequencies(tensors: dict) -> dict:
    """Adds the rotary buffer of old Llama checkpoints with wrong values, because it must be ignored."""
    return tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.rand(5)}


def flat_rotary(config: dict) -> dict:
    """Uses the keys of transformers 4: rope_theta and rope_scaling {"type": ...} instead of rope_parameters."""
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type")} | rope
    config["torch_dtype"] = config.pop("dtype")
    return config


def old_roberta(config: dict) -> dict:
    """A config of transformers 4 that omits the padding id, which has a default."""
    config.pop("pad_token_id", None)
    config["torch_dtype"] = config.pop("dtype")
    return config | {"position_embedding_type": "absolute"}


def long_names(config: dict) -> dict:
    """Uses the general names of sizes, which DistilBERT also accepts."""
    for own, general in (("dim", "hidden_size"), ("n_layers", "num_hidden_layers"), ("n_heads", "num_attention_heads")):
        config[general] = config.pop(own)
    return config


def flat_theta(config: dict) -> dict:
    """A config of transformers 4: rope_theta at the top level, no layer types."""
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    return config


def earliest_llama(config: dict) -> dict:
    """A config from before grouped queries, head_dim and rotary options, which then have their defaults."""
    for key in ("rope_parameters", "head_dim", "num_key_value_heads", "attention_bias", "mlp_bias", "dtype"):
        config.pop(key, None)
    return config | {"rope_scaling": None}


def stale_theta(config: dict) -> dict:
    """Both forms in one file: the rope_theta within rope_parameters is used."""
    return config | {"rope_theta": 77.0}
