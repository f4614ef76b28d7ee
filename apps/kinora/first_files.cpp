#include "apps/kinora/first_files.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/paths.hpp"
#include "core/base/quantity.hpp"

namespace kinora {
namespace {

// Core-seconds for a second of video: what does not depend on its size, and for each million pixels of a frame
// (docs/benchmarks/epyc-2core.md, "A folder of videos by `kinora curate`").
constexpr double kFixed = 0.25, kPerMegapixel = 0.5;
// Clips as H.264 beside their source, and previews and frames.
constexpr double kSizeOfClips = 1.2;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

bool has_asset(std::string_view name) { return static_cast<bool>(core::find_asset(name)); }

constexpr const char* kCurate =
    R"(# {folder} -> clips with scores -> the good ones without copies -> shards, and a report.
#   kinora run {file}
# then: kinora studio runs/{name}          look at the clips, accept and reject
#
# Found: {found}.
# To expect on this machine: {hours}, and {room} of disk.
[run]
name = {name_quoted}

# Every video becomes clips of one shot each. No model server is needed: caption.describe writes what can be measured.
# With a server, put {{ use = "caption.endpoint", model = "..." }} in its place (docs/curate/captions.md).
[[job]]
name = "clips"
kind = "curate"
input = {folder_quoted}
recursive = true
stages = [
  "video.probe",
  {clips},
  {{ use = "filter.black", mode = "score" }},
  {{ use = "filter.blur", mode = "score" }},
  {{ use = "filter.frozen", mode = "score" }},
  {{ use = "filter.motion", mode = "score" }},
  {{ use = "filter.letterbox", mode = "score" }},
  "embed.classic",
  "clip.signature",
  "caption.describe",
  {{ use = "clip.preview", height = 90 }},
]

# The filters above only measure. Change these bounds as you like: nothing is curated again. The studio shows each
# score's distribution.
[[job]]
name = "chosen"
kind = "select"
input = "clips"
where = "black < 0.5 and blur >= 20 and frozen <= 0.8 and letterbox <= 0.1"

# Leaves out copies, and excerpts of other clips.
[[job]]
name = "copies"
kind = "dedup"
input = "chosen"
dedup = {{ use = "dedup.semantic", keep = "largest" }}

# Training and validation; the clips of a video are in one of them.
[[job]]
name = "sets"
kind = "select"
input = "copies"
sets = ["train", "val"]
shares = [9, 1]
{search}
[[job]]
name = "shards"
kind = "shard"
input = "sets"
shard = {{ use = "shard.webdataset", max_size = "512 MiB" }}

[[job]]
name = "report"
kind = "report"
)";

// The network's weights may not be installed.
constexpr const char* kNetwork =
    R"({ use = "video.clips", detectors = ["transnetv2"], sample_fps = 4.0, sample_height = 180 })";
constexpr const char* kNoNetwork =
    R"(# TransNet V2 finds shots better; docs/operate.md says how its weights come: detectors = ["transnetv2"]
  { use = "video.clips", detectors = ["adaptive", "threshold"], shot_min_length = 6, tolerance = 2,)"
    R"( sample_fps = 4.0, sample_height = 180 })";
constexpr const char* kSearch = R"(
# kinora search runs/{name} "a boat at sea"
[[job]]
name = "captions"
kind = "embed-text"
input = "clips"
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
)";

constexpr const char* kTrain =
    R"(# {folder} -> a tokenizer and latents -> a trained diffusion transformer -> videos, and a report.
#   kinora check {file}      then: kinora run {file}
#
# Found: {found}.
# The sizes below suit a laptop and some hundred clips; docs/train.md says how large a model for how much data, and
# `kinora plan {file} --cluster 1x8xH100` what a step takes on a cluster.
[run]
name = {name_quoted}
seed = 1

# 4 times fewer frames and 4 x 4 times fewer pixels.
[[job]]
name = "tokenizer"
kind = "train-tokenizer"
input = {folder_quoted}
start = "principal"
tokenizer = {{ use = "cosmos", latent_channels = 32, spatial_compression_ratio = 4,)"
    R"( encoder_block_out_channels = [72, 72],)"
    R"( decode_block_out_channels = [72, 72] }}
frames = 17
height = 64
width = 96
steps = 1000
batch = 2
learning_rate = 5e-4
ema = 0.98

# Computed once, for all training runs.
[[job]]
name = "latents"
kind = "encode"
input = [{folder_quoted}, "tokenizer"]
frames = 17
height = 64
width = 96
sigma_data = 1.0
scale = "latent"
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
text = {{ use = "minilm" }}

[[job]]
name = "dit"
kind = "train"
input = "latents"
model = {{ use = "dit", in_channels = 32, out_channels = 32, patch_space = 1, text_size = 384,)"
    R"( layers = 8, heads = 6, head_size = 64, adaln_lora = 64 }}
loss = {{ use = "flow", shift = 2.0 }}
precision = "fp32"
parallel = ["single"]
steps = 10000
batch = 8
learning_rate = 3e-4
ema = 0.999
validation = 0.05
validation_every = 500
sample_every = 2000

[[job]]
name = "film"
kind = "generate"
input = "dit"
sampler = {{ use = "flow-euler", steps = 24, shift = 2.0 }}
prompts = ["A short bright video."]
guidance = 1.0

[[job]]
name = "report"
kind = "report"
)";

constexpr const char* kModel = R"(# Videos of the published model in {folder}.
#   kinora run {file}
# Frames, size, steps and guidance are the model's own unless they are set here (docs/generate.md). `kinora inspect
# {folder}` says how large it is before anything is loaded.
[run]
name = {name_quoted}

[[job]]
name = "film"
kind = "generate"
pipeline = {folder_quoted}
prompts = ["a boat at sea"]
# negative = ""
# frames = 81
# height = 480
# width = 832
# device = "cuda"
)";

std::string hours_text(double hours) {
  if (hours < 1.0 / 60) return "less than a minute";
  return hours < 1.5 ? fmt::format("about {:.0f} minutes", hours * 60)
                     : fmt::format("about {:.0f} hours", hours);
}

}  // namespace

double hours_to_curate(const FolderLook& look) {
  const double megapixels = static_cast<double>(look.height * look.width) / 1e6;
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return look.seconds * (kFixed + kPerMegapixel * megapixels) / cores / 3600;
}

std::string run_file_for(const FolderLook& look, const std::string& name, const std::string& file) {
  using Holds = FolderLook::Holds;
  const char* form = look.holds == Holds::videos ? kCurate : look.holds == Holds::model ? kModel : kTrain;
  const std::string folder = look.folder.string();
  const auto filled = [&](const char* text, const std::string& search) {
    return fmt::format(
        fmt::runtime(text), fmt::arg("folder", folder), fmt::arg("folder_quoted", quoted(folder)),
        fmt::arg("name", name), fmt::arg("name_quoted", quoted(name)), fmt::arg("file", file),
        fmt::arg("found", look.text()), fmt::arg("hours", hours_text(hours_to_curate(look))),
        fmt::arg("room",
                 core::format_size(static_cast<uint64_t>(static_cast<double>(look.bytes) * kSizeOfClips))),
        fmt::arg("clips", has_asset("transnetv2/transnetv2.safetensors") ? kNetwork : kNoNetwork),
        fmt::arg("search", search));
  };
  return filled(form, has_asset("minilm/vocab.txt") ? filled(kSearch, "") : "");
}

}  // namespace kinora
