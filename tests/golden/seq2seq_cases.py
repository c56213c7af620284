"""Cases of encoder-decoder models, with different numbers of layers and different lengths."""
from decoder_cases import two
from model_case import ModelCase
from old_layouts import own_t5_head

T5 = dict(vocab_size=37, d_model=15, d_kv=6, d_ff=22, num_layers=2, num_decoder_layers=1, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0)  # fmt: skip
T5_GATED = T5 | dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
BART = dict(vocab_size=37, d_model=18, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
            decoder_attention_heads=3, encoder_ffn_dim=17, decoder_ffn_dim=21, max_position_embeddings=16,
            decoder_start_token_id=2, pad_token_id=1)  # fmt: skip
MARIAN = BART | dict(max_position_embeddings=40, decoder_vocab_size=37, pad_token_id=36, decoder_start_token_id=36,
                     eos_token_id=0, forced_eos_token_id=0)  # fmt: skip


def pair(name: str, model: str, new: dict, old: dict) -> list[ModelCase]:
    cases = two(name, model, new, old)
    cases[0].lengths, cases[0].targets = (1, 9), (3, 5)
    cases[1].lengths, cases[1].targets = (12, 2), (4, 7)
    return cases


CASES = [
    *pair("t5", "T5ForConditionalGeneration", T5, T5 | dict(num_decoder_layers=2)),
    *pair("t5-gated", "T5ForConditionalGeneration", T5_GATED, T5_GATED | dict(num_layers=1)),
    ModelCase("t5-own-head", "T5ForConditionalGeneration", T5_GATED, lengths=(5,), targets=(4,), dtype="float16",
              edit_tensors=[own_t5_head]),
    *pair("bart", "BartForConditionalGeneration", BART | dict(scale_embedding=True),
          BART | dict(decoder_layers=2, decoder_attention_heads=2, activation_function="relu")),
    *pair("mbart", "MBartForConditionalGeneration", BART | dict(scale_embedding=True), BART),
    *pair("marian", "MarianMTModel", MARIAN | dict(scale_embedding=True, activation_function="swish"), MARIAN),
    *pair("pegasus", "PegasusForConditionalGeneration", BART | dict(scale_embedding=True, pad_token_id=0), BART),
]  # fmt: skip
