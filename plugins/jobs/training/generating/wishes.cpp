#include "plugins/jobs/training/generating/wishes.hpp"

#include <algorithm>
#include <sstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/text_encoding.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
const std::vector<std::string> kFormats = {"mp4", "webp", "png", "latents"};

// A line of prompts_file: a prompt, or in a .jsonl an object.
void read_line(const fs::path& file, size_t number, const std::string& line, Wish& wish) {
  if (file.extension() != ".jsonl") {
    wish.prompt = line;
    return;
  }
  const auto given = json::parse(line, nullptr, false);
  const auto wrong = [&](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}:{}: {}", file.string(), number, what));
  };
  if (!given.is_object() || !given.contains("prompt"))
    wrong("expected an object such as {\"prompt\": \"...\"}");
  for (const auto& [name, value] : given.items()) {
    const bool text = name == "prompt" || name == "negative" || name == "image" || name == "video";
    if (name == "signals") {
      const auto signals = given_signals(value);
      if (!signals) wrong("'signals' must be an object of numbers and lists of numbers");
      wish.signals = *signals;
      continue;
    }
    if (!text && name != "seed")
      wrong("unknown member '" + name + "'; known: prompt, negative, seed, image, video, signals");
    if (text ? !value.is_string() : !value.is_number_unsigned())
      wrong("'" + name + "' must be " + (text ? "a text" : "a whole number that is not negative"));
  }
  const auto path = [&](const char* name, const fs::path& otherwise) {
    return given.contains(name) ? file.parent_path() / given[name].get<std::string>() : otherwise;
  };
  wish.prompt = given["prompt"];
  wish.negative = given.value("negative", wish.negative);
  wish.seed = given.value("seed", wish.seed);
  wish.image = path("image", wish.image);
  wish.video = path("video", wish.video);
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

std::vector<Wish> wishes(const JobView& context, const GenerateOptions& o) {
  Wish common;
  common.seed = static_cast<uint64_t>(o.seed >= 0 ? o.seed : context.run().seed);
  common.negative = o.negative;
  common.image = o.image;
  common.video = o.video;
  common.signals = given_signals(o.signals);
  std::vector<Wish> made;
  for (const auto& prompt : o.prompts) made.push_back(common), made.back().prompt = prompt;
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
    throw Error(KINORA_ERROR_INVALID, "no prompts; set prompts, one text per video, or prompts_file");
  std::vector<Wish> all;
  for (const auto& wish : made)
    for (int64_t i = 0; i < o.count; ++i) {
      all.push_back(wish);
      all.back().number = o.first + static_cast<int64_t>(all.size()) - 1;
    }
  return all;
}

void require_formats(const GenerateOptions& o) {
  for (const auto& format : o.format)
    if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end())
      throw Error(KINORA_ERROR_INVALID, "format '" + format + "' is unknown; give mp4, webp, png or latents");
}

void require_video(const GenerateOptions& o, const std::vector<Wish>& all) {
  const auto changes = [](const Wish& wish) { return !wish.video.empty(); };
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
