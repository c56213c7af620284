"""Cases of encoders whose scores or embeddings use positions in more ways than BERT's."""
from decoder_cases import two
from model_case import ModelCase
from old_layouts import rewritten

DEBERTA = dict(vocab_size=37, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
               max_position_embeddings=13, relative_attention=True, pos_att_type=["c2p", "p2c"], type_vocab_size=0,
               layer_norm_eps=1e-7)  # fmt: skip
DEBERTA_V2 = DEBERTA | dict(position_biased_input=False, position_buckets=6, max_relative_positions=40,
                            norm_rel_ebd="layer_norm", share_att_key=True)  # fmt: skip
MPNET = dict(vocab_size=37, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
             max_position_embeddings=32)  # fmt: skip
ESM = dict(vocab_size=33, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
           max_position_embeddings=15, position_embedding_type="rotary", pad_token_id=1, mask_token_id=4,
           token_dropout=True, layer_norm_eps=1e-5)  # fmt: skip
MODERNBERT = dict(vocab_size=37, hidden_size=18, num_hidden_layers=4, num_attention_heads=3, intermediate_size=17,
                  max_position_embeddings=32, local_attention=6, pad_token_id=0, bos_token_id=1, cls_token_id=1,
                  eos_token_id=2, sep_token_id=2)  # fmt: skip

CASES = [
    *two("deberta", "DebertaForMaskedLM", DEBERTA | dict(position_biased_input=False, max_relative_positions=5),
         DEBERTA | dict(type_vocab_size=2, hidden_act="gelu_new")),
    *two("deberta-v2", "DebertaV2ForMaskedLM", DEBERTA_V2 | dict(conv_kernel_size=3, conv_act="gelu"),
         DEBERTA_V2 | dict(share_att_key=False, position_biased_input=True, type_vocab_size=2, pos_att_type=["p2c"])),
    ModelCase("deberta-v2-unbucketed", "DebertaV2Model", DEBERTA | dict(pos_att_type=["c2p"], max_relative_positions=4),
              lengths=(1, 9), dtype="float16"),
    *two("mpnet", "MPNetForMaskedLM", MPNET, MPNET | dict(hidden_act="relu")),
    *two("esm", "EsmForMaskedLM", ESM, ESM | dict(position_embedding_type="absolute", emb_layer_norm_before=True,
                                                  token_dropout=False)),
    ModelCase("esm-rotary-old", "EsmForMaskedLM", ESM | dict(emb_layer_norm_before=True), lengths=(3, 11),
              dtype="float16", **rewritten("esm")),
    *two("modernbert", "ModernBertForMaskedLM", MODERNBERT | dict(
        layer_types=["sliding_attention", "full_attention"], num_hidden_layers=2, norm_bias=True, attention_bias=True,
        mlp_bias=True,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=900.0),
                             sliding_attention=dict(rope_type="default", rope_theta=70.0))), MODERNBERT),
]  # fmt: skip
for case in CASES:
    if case.name == "mpnet":
        case.lengths, case.pad_tokens = (2, 21), (3,)  # long enough for buckets of several distances
    if case.name == "modernbert":
        case.lengths = (2, 15)
    if case.name.startswith("esm"):
        case.vocabulary = 9  # includes mask tokens and padding
    if case.name.startswith("deberta"):
        case.padded = False  # DeBERTa also masks queries: the row of a hidden query would be uniform
        case.lengths = (1, 13)
