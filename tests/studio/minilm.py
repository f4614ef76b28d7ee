"""MiniLM-L6 in numpy, float64: sentence embeddings, independent of Kinora."""
import math, re

import numpy as np
from safetensors.numpy import load_file

HEADS, LAYERS = 12, 6


class MiniLM:
    def __init__(self, folder):
        self.w = {name.removeprefix("bert."): value.astype(np.float64)
                  for name, value in load_file(folder / "model.safetensors").items()}
        self.vocab = {word: n for n, word in enumerate((folder / "vocab.txt").read_text().splitlines())}

    def tokens(self, text):
        out = [self.vocab["[CLS]"]]
        for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()):
            at, pieces = 0, []
            while at < len(word):
                end = next((e for e in range(len(word), at, -1) if ("##" if at else "") + word[at:e] in self.vocab), 0)
                if not end:
                    pieces = [self.vocab["[UNK]"]]
                    break
                pieces.append(self.vocab[("##" if at else "") + word[at:end]])
                at = end
            out += pieces
        return out + [self.vocab["[SEP]"]]

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def __call__(self, text):
        """[384], of length 1: the mean over the tokens."""
        ids = self.tokens(text)
        e = "embeddings."
        x = self.norm(e + "LayerNorm",
                      self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][: len(ids)]
                      + self.w[e + "token_type_embeddings.weight"][0])
        for n in range(LAYERS):
            layer = f"encoder.layer.{n}."
            q, k, v = (self.linear(f"{layer}attention.self.{name}", x).reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                       for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1)
            x = self.norm(layer + "attention.output.LayerNorm",
                          x + self.linear(layer + "attention.output.dense", mixed))
            wide = self.linear(layer + "intermediate.dense", x)
            x = self.norm(layer + "output.LayerNorm",
                          x + self.linear(layer + "output.dense",
                                          wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))))
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)
