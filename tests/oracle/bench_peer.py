"""The peers of `kinora bench train|sample|vae`: the same networks in PyTorch (eager, and torch.compile where a
compiler is available) and diffusers. usage: bench_peer.py train|sample|vae THREADS. Prints one line of JSON."""
import json, resource, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

WHAT, THREADS = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(THREADS)
torch.manual_seed(1)
D, H, d, TEXT, LAYERS, RANK = 256, 4, 64, 256, 6, 64


def best(work, times=3):
    work()
    seconds, cpu = [], []
    for _ in range(times):
        start, cpu_start = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    return {"seconds": min(seconds), "cpu_seconds": min(cpu)}


def linear(i, o):
    return nn.Linear(i, o, bias=False)


class AdaLn(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts, self.down, self.up = parts, linear(D, RANK), linear(RANK, parts * D)

    def forward(self, c):
        return self.up(self.down(c)).chunk(self.parts, -1)


def modulate(x, shift, scale):
    return F.layer_norm(x, (D,), eps=1e-6) * (1 + scale) + shift


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attend(nn.Module):

    def forward(self, x, other=None, turns=None):
        B = x.shape[0]
        if other is None:
            q, k, v = self.qkv(x).view(B, -1, H, 3, d).unbind(3)
        else:
            q = self.q(x).view(B, -1, H, d)
            k, v = self.kv(other).view(B, -1, H, 2, d).unbind(3)
        q, k = self.nq(q), self.nk(k)
        if turns is not None:
            q, k = rope(q, *turns), rope(k, *turns)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.out(o.transpose(1, 2).flatten(2))


class SelfAttend(Attend):
    def __init__(self):
        nn.Module.__init__(self)
        self.qkv, self.out = linear(D, 3 * D), linear(D, D)
        self.nq, self.nk = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)


class CrossAttend(Attend):
    def __init__(self):
        nn.Module.__init__(self)
        self.q, self.kv, self.out = linear(D, D), linear(TEXT, 2 * D), linear(D, D)
        self.nq, self.nk = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ada, self.full, self.cross = AdaLn(9), SelfAttend(), CrossAttend()
        self.up, self.down = linear(D, 4 * D), linear(4 * D, D)

    def forward(self, x, c, text, turns):
        s1, a1, g1, s2, a2, g2, s3, a3, g3 = self.ada(c)
        x = x + g1 * self.full(modulate(x, s1, a1), turns=turns)
        x = x + g2 * self.cross(modulate(x, s2, a2), text)
        return x + g3 * self.down(F.gelu(self.up(modulate(x, s3, a3))))


class Dit(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.t1, self.t2 = nn.Linear(64, D), nn.Linear(D, D), nn.Linear(D, D)
        self.layers, self.ada, self.head = nn.ModuleList(Layer() for _ in range(LAYERS)), AdaLn(2), nn.Linear(D, 64)

    def forward(self, latent, t, text, turns):
        B, C, T, h, w = latent.shape
        x = latent.reshape(B, C, T, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 4, 6, 1).reshape(B, -1, 64)
        x = self.embed(x)
        half = D // 2
        angle = t[:, None] * torch.exp(torch.arange(half) * (-9.210340371976184 / half))
        c = F.silu(self.t2(F.silu(self.t1(torch.cat([angle.sin(), angle.cos()], -1)))))[:, None]
        for layer in self.layers:
            x = layer(x, c, text, turns)
        shift, scale = self.ada(c)
        x = self.head(modulate(x, shift, scale)).view(B, T, h // 2, w // 2, 2, 2, C)
        return x.permute(0, 6, 1, 2, 4, 3, 5).reshape(B, C, T, h, w)


def dit_work(net):
    latent, target, text, t = torch.randn(1, 16, 8, 32,
                                          32), torch.randn(1, 16, 8, 32,
                                                           32), torch.randn(1, 64, TEXT), torch.full((1,), 0.5)
    angle = torch.randn(1, 2048, 1, d // 2)
    turns = (angle.cos(), angle.sin())
    if WHAT == "sample":
        def call():
            with torch.no_grad():
                net(latent, t, text, turns)
        return call
    adam = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)

    def step():
        adam.zero_grad()
        F.mse_loss(net(latent, t, text, turns), target).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1)
        adam.step()
    return step


def vae():
    from diffusers import AutoencoderKLWan
    net = AutoencoderKLWan(base_dim=32, z_dim=16).eval()
    video, latent = torch.rand(1, 3, 9, 128, 128) * 2 - 1, torch.randn(1, 16, 3, 16, 16)
    with torch.no_grad():
        return {"diffusers_encode": {"what": "encode", **best(lambda: net.encode(video))},
                "diffusers_decode": {"what": "decode", **best(lambda: net.decode(latent))}}


def main():
    if WHAT == "vae":
        out = vae()
    else:
        out = {"eager": best(dit_work(Dit()))}
    out["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before the compiler adds its own
    if WHAT != "vae":
        try:
            out["compiled"] = best(dit_work(torch.compile(Dit())))
        except Exception as error:
            print(f"torch.compile: {error}", file=sys.stderr)
    print(json.dumps(out))


main()
