#!/usr/bin/env python3
"""Measures the same as `attnctl study`, over a treebank and with a BERT-like model, in PyTorch and NumPy.

    study.py MODEL TREEBANK THREADS [--out RESULTS.json]

With --out it runs once and writes its numbers, which compare_study.py compares with attnctl's. Otherwise it answers
requests (serve.py); each is a study of TREEBANK with the loaded model. Uses eager attention and padded batches of
sentences of similar length. Computes no intervals of trees and no roles.
"""
import argparse
import json

from serve import Timer, serve

BATCH_TOKENS = 1024
PROBES, COPY = 32, 32


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("treebank")
    parser.add_argument("threads", type=int)
    parser.add_argument("--out")
    return parser.parse_args()


class Study:
    def __init__(self, options):
        import torch
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        torch.set_num_threads(options.threads)
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.torch, self.treebank = torch, options.treebank
        self.tokenizer = AutoTokenizer.from_pretrained(options.model)
        self.model = AutoModel.from_pretrained(options.model, attn_implementation="eager", dtype=torch.float32).eval()
        config = self.model.config
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.outputs = {}
        for i, layer in enumerate(self.model.encoder.layer):
            layer.attention.output.dense.register_forward_pre_hook(
                lambda _, inputs, i=i: self.outputs.__setitem__(i, inputs[0]))

    def patterns(self, ids, valid):
        """Returns [b, h, n, n] for each layer; rows of padding are zero."""
        out = self.model(input_ids=ids, attention_mask=valid.long(), output_attentions=True)
        return [a * valid[:, None, :, None] for a in out.attentions]

    def run(self):
        with self.torch.inference_mode():
            return self._run()

    def _run(self):
        from study_corpus import batches, tokenized
        from study_measures import Rows, Syntax, Targets
        from study_pairs import Pairs, Rollout

        total = self.layers * self.heads
        sentences = tokenized(self.treebank, self.tokenizer)
        rows = Rows(total, max(len(s.ids) for s in sentences))
        special = [self.tokenizer.cls_token_id, self.tokenizer.sep_token_id]
        measures = [rows, Targets(total, special), Syntax(total)]
        pairs, rollout = Pairs(total, self.model.config.hidden_size // self.heads), Rollout(self.layers, 1 + len(special))
        relations = {}
        for batch in batches(sentences, relations, BATCH_TOKENS):
            batch.ends = batch.ids == self.tokenizer.sep_token_id
            layers = self.patterns(batch.ids, batch.valid)
            for measure in measures:
                measure.add_batch(batch)
            for i, patterns in enumerate(layers):
                argmax = patterns.argmax(-1)
                for measure in measures:
                    measure.add(i * self.heads, patterns, batch, argmax)
            measures[2].end_batch()
            pairs.add(layers, [self.outputs[i] for i in range(self.layers)], batch)
            rollout.add(layers, measures[1].keys[..., :-1], batch)
        return {"sentences": len(sentences), "tokens": sum(len(s.ids) for s in sentences), **rows.results(),
                **measures[1].results(), **measures[2].results(relations), "pairs": pairs.results(),
                "rollout": rollout.results(), "probe": self.probe()}  # fmt: skip

    def probe(self):
        """A random sequence, repeated once, and its control."""
        draw = self.torch.Generator().manual_seed(0)
        count = 2 * COPY
        drawn = self.torch.rand(PROBES, self.model.config.vocab_size - 1000, generator=draw).topk(count).indices + 1000
        said, other = drawn[:, :COPY], drawn[:, COPY:]
        first = self.torch.full((PROBES, 1), self.tokenizer.cls_token_id)
        found = {}
        for name, before in (("repeated", said), ("control", other)):
            ids = self.torch.cat([first, before, said], 1)
            patterns = self.torch.cat(self.patterns(ids, self.torch.ones_like(ids, dtype=self.torch.bool)), 1)
            second = patterns[:, :, 1 + COPY :]
            kinds = {"induction": 2, "duplicate": 1, "previous": COPY}
            found[name] = {kind: second.diagonal(at, -2, -1).mean((0, 2)).tolist() for kind, at in kinds.items()}
        return found


def open_peer():
    import torch

    options = parse()
    study = Study(options)
    timer = Timer()

    def answer(request):
        return timer.measure(options.treebank, study.run, 1, request.get("warm_ups", 0))

    return f"torch {torch.__version__.split('+')[0]} and NumPy", answer


def main():
    options = parse()
    if options.out is None:
        return serve(open_peer)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(Study(options).run(), file)


if __name__ == "__main__":
    main()
