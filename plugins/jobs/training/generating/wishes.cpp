#include "plugins/jobs/training/generating/wishes.hpp"

#include <fstream>

#include <fmt/format.h>

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
    throw Error(KINORA_INVALID, fmt::format("{}:{}: {}", file.string(), number, what));
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
    std::ifstream in(o.prompts_file);
    if (!in) throw Error(KINORA_NOT_FOUND, "cannot read prompts_file " + o.prompts_file);
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
    throw Error(KINORA_INVALID, "no prompts; set prompts, one text per video, or prompts_file");
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
      throw Error(KINORA_INVALID, "format '" + format + "' is unknown; give mp4, webp, png or latents");
}

void require_video(const GenerateOptions& o, const std::vector<Wish>& all) {
  const auto changes = [](const Wish& wish) { return !wish.video.empty(); };
  if (o.strength < 1 && std::none_of(all.begin(), all.end(), changes))
    throw Error(KINORA_INVALID, "strength is the share of steps that change a video; give one in video");
}

}  // namespace kinora::core
