"""Edits that turn what save_pretrained writes into what other programs write: names, extra tensors, config keys.

A tensor edit takes and gives {name: tensor}; a config edit takes and gives the object of config.json.
"""
import torch


def add_bert_extras(tensors: dict) -> dict:
    """A pooler, a next-sentence head and the position_ids buffer: none is part of the forward pass."""
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
    """The decoder stored twice, its bias too, and the position_ids buffer, as old files have them."""
    embedding = "roberta.embeddings.word_embeddings.weight"
    n = tensors["roberta.embeddings.position_embeddings.weight"].shape[0]
    return tensors | {
        "lm_head.decoder.weight": tensors[embedding].clone(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
        "roberta.embeddings.position_ids": torch.arange(n)[None],
    }


def old_norm_names(tensors: dict) -> dict:
    """LayerNorm.weight and .bias were once called gamma and beta."""
    return {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors.items()
    }


def without_prefix(prefix: str):
    return lambda tensors: {k.removeprefix(prefix): v for k, v in tensors.items()}


def add_causal_buffers(tensors: dict) -> dict:
    """Old GPT-2 checkpoints carry each layer's causal mask, [1, 1, n, n], under a name like that of a bias."""
    n = tensors["wpe.weight"].shape[0]
    layers = {k.split(".")[1] for k in tensors if k.startswith("h.")}
    mask = torch.tril(torch.ones(1, 1, n, n, dtype=torch.uint8))
    return tensors | {f"h.{layer}.attn.bias": mask.clone() for layer in layers}


def add_own_head(tensors: dict) -> dict:
    """An output head of its own in a checkpoint whose config says that it is tied."""
    return tensors | {"lm_head.weight": torch.randn_like(tensors["model.embed_tokens.weight"])}


def add_inverse_frequencies(tensors: dict) -> dict:
    """Old Llama checkpoints carry the rotary buffer; wrong values here, since it must be ignored."""
    return tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.rand(5)}


def flat_rotary(config: dict) -> dict:
    """The keys of transformers 4: rope_theta and rope_scaling {"type": ...} in place of rope_parameters."""
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type")} | rope
    config["torch_dtype"] = config.pop("dtype")
    return config


def old_roberta(config: dict) -> dict:
    """A config of transformers 4 that leaves the padding's id to its default."""
    config.pop("pad_token_id", None)
    config["torch_dtype"] = config.pop("dtype")
    return config | {"position_embedding_type": "absolute"}


def long_names(config: dict) -> dict:
    """The general names of sizes, which DistilBERT takes beside its own."""
    for own, general in (("dim", "hidden_size"), ("n_layers", "num_hidden_layers"), ("n_heads", "num_attention_heads")):
        config[general] = config.pop(own)
    return config


def flat_theta(config: dict) -> dict:
    """A config of transformers 4: rope_theta beside the others, no types of layers."""
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    return config


def earliest_llama(config: dict) -> dict:
    """A config from before grouped queries, head_dim and rotary options: their defaults must serve."""
    for key in ("rope_parameters", "head_dim", "num_key_value_heads", "attention_bias", "mlp_bias", "dtype"):
        config.pop(key, None)
    return config | {"rope_scaling": None}


def stale_theta(config: dict) -> dict:
    """Both forms in one file: the rope_theta within rope_parameters counts."""
    return config | {"rope_theta": 77.0}
