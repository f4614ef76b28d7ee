#!/usr/bin/env python3
"""The peer of `kinora bench block --device cuda`: one block of the 7B DiT in PyTorch, eager and by torch.compile,
bfloat16, forward and backward. usage: block_peer.py TOKENS. Prints one line of JSON: milliseconds, and the share of the
rate of a large product."""
import json, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

TOKENS, D, H, d, TEXT = int(sys.argv[1]), 3072, 24, 128, 1024
torch.manual_seed(1)
linear = lambda i, o: nn.Linear(i, o, bias=False)  # noqa: E731


def rope(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Attend(nn.Module):
    def __init__(self, across=0):
        super().__init__()
        self.q, self.kv, self.out = linear(D, D), linear(across or D, 2 * D), linear(D, D)
        self.nq, self.nk = nn.RMSNorm(d, 1e-6), nn.RMSNorm(d, 1e-6)

    def forward(self, x, other=None, turns=None):
        q = self.nq(self.q(x).view(1, -1, H, d))
        k, v = self.kv(x if other is None else other).view(1, -1, H, 2, d).unbind(3)
        k = self.nk(k)
        if turns is not None:
            q, k = rope(q, *turns), rope(k, *turns)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.out(o.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.across = Attend(), Attend(TEXT)
        self.up, self.down = linear(D, 4 * D), linear(4 * D, D)
        self.rows = linear(D, 9 * D)

    def forward(self, x, c, text, cos, sin):
        m = self.rows(F.silu(c)).chunk(9, -1)
        for i, part in enumerate((lambda y: self.own(y, turns=(cos, sin)), lambda y: self.across(y, text),
                                  lambda y: self.down(F.gelu(self.up(y))))):
            x = x + m[3 * i + 2] * part(F.layer_norm(x, (D,), eps=1e-6) * (1 + m[3 * i + 1]) + m[3 * i])
        return x


def fastest(work, times=5):
    best = 1e9
    for i in range(times + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = best if i < 2 else min(best, time.perf_counter() - start)
    return best


bf16 = {"device": "cuda", "dtype": torch.bfloat16}
block, x, c, text = Block().to(**bf16), torch.randn(1, TOKENS, D,
                                                    **bf16), torch.randn(1, 1, D, **bf16), torch.randn(
                                                        1, 512, TEXT, **bf16)
angle = torch.randn(TOKENS, 1, d // 2, device="cuda")
x.requires_grad_(True)
a = torch.randn(8192, 8192, **bf16)
peak = 2 * 8192**3 / fastest(lambda: a @ a)
# Multiplications of one forward: projections, MLP and attention; three times that with the backward.
flop = 3 * 2 * (TOKENS * D * (4 * D + 2 * D + 8 * D) + 512 * TEXT * 2 * D + 2 * TOKENS * TOKENS * D + 2 * TOKENS * 512
                * D)
out = {"tokens": TOKENS, "product_tflops": peak / 1e12, "tflop": flop / 1e12}
for name, run in (("eager", block), ("compiled", torch.compile(block))):
    try:
        seconds = fastest(lambda: run(x, c, text, angle.cos(), angle.sin()).sum().backward())
    except Exception as error:  # no compiler there
        out[name] = str(error).splitlines()[0]
        continue
    out |= {f"{name}_ms": seconds * 1e3, f"{name}_of_product": flop / seconds / peak}
print(json.dumps(out))
