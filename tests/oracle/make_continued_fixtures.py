"""Writes tests/data/oracle/continued: two small videos, and continued.safetensors: what diffusers' pipelines of Cosmos Predict 1 and 2 make when
they continue them, from noise that is given, CASE.noise -> CASE.latent, both [C, T, H, W].

Of the short video, which is shorter than the result, the pipelines take all frames. Of a longer one they would take as many as the result has, which
leaves nothing to make; NVIDIA's programs take the frames of two latent frames from its end, and these are given here. Predict 2 is called with
fps = 24, where diffusers' time positions count frames, as in NVIDIA's configuration (rope_enable_fps_modulation = False).

Needs what make_pipeline_noise_fixtures.py needs, and av with libx264rgb.
"""
import pathlib
import shutil
import tempfile

import av
import numpy as np
import torch
from diffusers import Cosmos2VideoToWorldPipeline, CosmosVideoToWorldPipeline
from PIL import Image
from provenance import save_file

from make_cosmos_pipeline_fixtures import NoGuardrail
from make_pipeline_noise_fixtures import NEGATIVE, assembled, case, certain, tensors
from make_wan_pipeline_fixtures import OUT

SIDE, LONG, SHORT, TWO_LATENT_FRAMES = 32, 20, 9, 5  # both autoencoders make one latent frame of four


def picture(t):
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    return np.stack([127 + 90 * np.sin((x + 3 * t) / 7), 127 + 90 * np.cos((y - 2 * t) / 5), 127 + 90 * np.sin((x + y + t) / 9)], -1).astype(np.uint8)


def write(name, frames):
    path = OUT / "continued" / name
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as out:
        stream = out.add_stream("libx264rgb", 16)
        stream.width = stream.height = SIDE
        stream.pix_fmt, stream.options = "rgb24", {"qp": "0", "threads": "1"}
        for frame in frames:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        out.mux(stream.encode())
    with av.open(str(path)) as read:
        got = [f.to_ndarray(format="rgb24") for f in read.decode(video=0)]
    assert all((a == b).all() for a, b in zip(got, frames, strict=True)), name
    return [Image.fromarray(f) for f in got]


if __name__ == "__main__":
    torch.set_num_threads(1)
    shutil.rmtree(OUT / "continued", ignore_errors=True)
    (OUT / "continued").mkdir()
    longer, short = write("long.mp4", [picture(t) for t in range(LONG)]), write("short.mp4", [picture(t) for t in range(SHORT)])
    tensors.clear()
    call = dict(height=SIDE, width=SIDE, negative_prompt=NEGATIVE, guidance_scale=3.0)
    with tempfile.TemporaryDirectory() as folder:
        first = certain(CosmosVideoToWorldPipeline.from_pretrained(assembled(pathlib.Path(folder) / "v2w", "cosmos_t2w", "cosmos_v2w"),
                                                                   safety_checker=NoGuardrail()))
        second = certain(Cosmos2VideoToWorldPipeline.from_pretrained(OUT / "cosmos2_v2w", safety_checker=NoGuardrail()))
        # Its autoencoder has a mean and a deviation for each of three latent frames.
        case("predict1_long", first, (4, 3, 8, 8), video=longer[-TWO_LATENT_FRAMES:], num_frames=9, augment_sigma=0.0, **call)
        tensors["predict1_long.latent"] /= 0.5  # Kinora's latents are the autoencoder's
        for name, video in (("short", short), ("long", longer[-TWO_LATENT_FRAMES:])):
            case(f"predict2_{name}", second, (2, 4, 4, 4), video=video, num_frames=13, fps=24, **call)
    save_file(dict(tensors), OUT / "continued" / "continued.safetensors")
