#include "plugins/jobs/inference/requests.hpp"

#include <algorithm>
#include <sstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/curation/text_file.hpp"
#include "plugins/jobs/inference/shots.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
const std::vector<std::string> kFormats = {"mp4", "webp", "png", "latents"};

// A line of prompts_file: a prompt, or in a .jsonl an object.
void read_line(const fs::path& file, size_t number, const std::string& line, Request& request) {
  if (file.extension() != ".jsonl") {
    request.prompt = line;
    return;
  }
  const auto given = json::parse(line, nullptr, false);
  const auto wrong = [&](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}:{}: {}", file.string(), number, what));
  };
  if (!given.is_object() || given.contains("prompt") == given.contains("shots"))
    wrong("expected an object such as {\"prompt\": \"...\"}, or with shots instead of a prompt");
  for (const auto& [name, value] : given.items()) {
    const bool text = name == "prompt" || name == "negative" || name == "image" || name == "video";
    if (name == "signals") {
      const auto signals = given_signals(value);
      if (!signals) wrong("'signals' must be an object of numbers and lists of numbers");
      request.signals = *signals;
      continue;
    }
    if (name == "shots") {
      if (!value.is_array() || value.empty()) wrong("'shots' must be a list of objects");
      for (const auto& shot : value) request.shots.push_back(shot.dump());
      if (const auto shots = catching([&] { return shots_of(request.shots); }); !shots)
        wrong(shots.failure().message);
      continue;
    }
    if (!text && name != "seed")
      wrong("unknown member '" + name + "'; known: prompt, negative, seed, image, video, signals, shots");
    if (text ? !value.is_string() : !value.is_number_unsigned())
      wrong("'" + name + "' must be " + (text ? "a text" : "a whole number that is not negative"));
  }
  const auto path = [&](const char* name, const fs::path& otherwise) {
    return given.contains(name) ? file.parent_path() / given[name].get<std::string>() : otherwise;
  };
  request.prompt = given.value("prompt", std::string());
  request.negative = given.value("negative", request.negative);
  request.seed = given.value("seed", request.seed);
  request.image = path("image", request.image);
  request.video = path("video", request.video);
}

Guidance guidance_of(const GenerateOptions& o, double scale) {
  Guidance out = o.guidance_convention == "nemo" ? Guidance::nemo(scale) : Guidance{.scale = scale};
  if (o.guidance_interval.size() == 2) {  // require_interval() refuses other sizes
    out.from = o.guidance_interval[0];
    out.to = o.guidance_interval[1];
  }
  out.batched = o.batch_guidance;
  return out;
}

const SafeTensor& noise_tensor(const Safetensors& opened, const std::filesystem::path& file, int64_t number,
                               const std::vector<int64_t>& shape) {
  const auto* found = opened.find(fmt::format("{:03}", number));
  if (!found)
    throw Error(KINORA_ERROR_NOT_FOUND,
                fmt::format("{}: tensor '{:03}', the noise of video {}, is missing; the "
                            "file has {} tensors, the first is '{}'",
                            file.string(), number, number, opened.names().size(),
                            opened.names().empty() ? "" : opened.names()[0]));
  if (found->shape != shape)
    raise(KINORA_ERROR_INVALID,
          "{}: noise '{:03}' is {}, but the latent is {} (channels, frames, rows, columns)", file.string(),
          number, fmt::format("[{}]", fmt::join(found->shape, ", ")),
          fmt::format("[{}]", fmt::join(shape, ", ")));
  if (!at::isfinite(as_tensor(opened, *found)).all().item<bool>())
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{}: noise '{:03}' has values that are not finite", file.string(), number));
  return *found;
}

}  // namespace

std::vector<Request> requests(const JobView& context, const GenerateOptions& o) {
  Request common;
  common.seed = static_cast<uint64_t>(o.seed >= 0 ? o.seed : context.run().seed);
  common.negative = o.negative;
  common.image = o.image;
  common.last_image = o.last_image;
  common.video = o.video;
  common.signals = given_signals(o.signals);
  common.noise = o.noise;
  common.strength = o.strength;
  common.condition_sigma = o.condition_sigma;
  common.condition_frames = o.condition_frames;
  common.condition_from_end = o.condition_from == "end";
  common.guidance = {guidance_of(o, o.guidance),
                     guidance_of(o, o.guidance_2 < 0 ? o.guidance : o.guidance_2)};
  common.tokens = {o.temperature, o.top_k, o.top_p};
  common.lora = lora_use(o.lora, lora_files(o.loras, {}));
  if (!o.shots.empty() && !(o.prompts.empty() && o.prompts_file.empty()))
    raise(KINORA_ERROR_INVALID,
          "shots and {} are both given, and shots are one video of their own: leave one of them out, or give "
          "a prompts_file ending in .jsonl, whose lines may have shots",
          o.prompts.empty() ? "prompts_file" : "prompts");
  std::vector<Request> made;
  for (const auto& prompt : o.prompts) made.push_back(common), made.back().prompt = prompt;
  if (!o.shots.empty()) made.push_back(common), made.back().shots = o.shots;
  if (!o.prompts_file.empty()) {
    constexpr uint64_t kMost = uint64_t{1} << 30;
    std::istringstream in(or_throw(read_text_file(o.prompts_file, kMost)));
    size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      made.push_back(common);
      read_line(o.prompts_file, number, line, made.back());
    }
  }
  if (made.empty())
    throw Error(KINORA_ERROR_INVALID,
                "no prompts; set prompts, one text per video, shots of one video, or prompts_file");
  for (auto& request : made)
    if (const auto shots = shots_of(request.shots); !shots.empty())
      request.prompt = shots[0].prompt, request.frames = o.shot_frames;
  std::vector<Request> all;
  for (const auto& request : made)
    for (int64_t i = 0; i < o.count; ++i) {
      all.push_back(request);
      all.back().number = o.first + static_cast<int64_t>(all.size()) - 1;
    }
  return all;
}

void require_formats(const GenerateOptions& o) {
  for (const auto& format : o.format)
    if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end())
      throw Error(KINORA_ERROR_INVALID, "format '" + format + "' is unknown; give mp4, webp, png or latents");
}

void require_video(const GenerateOptions& o, const std::vector<Request>& all) {
  const auto changes = [](const Request& request) { return !request.video.empty(); };
  if (o.strength < 1 && std::none_of(all.begin(), all.end(), changes))
    throw Error(KINORA_ERROR_INVALID,
                "strength is the share of steps that change a video; give one in video");
}

void require_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape) {
  noise_tensor(or_throw(Safetensors::open(file)), file, number, shape);
}

at::Tensor given_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape) {
  const auto opened = or_throw(Safetensors::open(file));
  return as_tensor(opened, noise_tensor(opened, file, number, shape)).to(at::kDouble).unsqueeze(0);
}

}  // namespace kinora::core
