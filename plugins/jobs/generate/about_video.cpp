#include "plugins/jobs/generate/about_video.hpp"

#include <filesystem>
#include <set>

#include "core/base/log.hpp"

namespace kinora::core {

using nlohmann::json;

json without_folders(json about) {
  static const std::set<std::string> kTexts{"prompts", "negative", "shots"};
  const auto cut = [](json& value) {
    if (!value.is_string()) return;
    const std::filesystem::path path = value.get<std::string>();
    if (path.is_absolute()) value = path.filename().string();
  };
  json& options = about.at("options");
  options.erase("loras");
  for (auto option = options.begin(); option != options.end(); ++option) {
    if (kTexts.contains(option.key())) continue;
    cut(*option);
    if (option->is_array())
      for (auto& one : *option) cut(one);
  }
  return about;
}

void AboutVideo::tell_speeds(json& about, const MadeVideo& made, double seconds) const {
  const auto frames = static_cast<double>(made.frames);
  const double denoise = frames / made.denoise_seconds, decode = frames / made.decode_seconds,
               whole = frames / seconds;
  about["frames_per_second"] = {{"denoise", denoise}, {"decode", decode}, {"end_to_end", whole}};
  log_info(
      "{}: {} frames of {} x {}, {} steps, {}; frames a second: denoise {:.3g}, decode {:.3g}, end to end "
      "{:.3g}",
      context_.spec().name, made.frames, made.width, made.height, made.steps,
      about["precision"].get<std::string>(), denoise, decode, whole);
}

// The job's options, for this video alone.
json AboutVideo::settings(const Request& request) const {
  json options = context_.spec().options;
  options["prompts"] = json::array();
  if (request.shots.empty()) options["prompts"] = {request.prompt};
  options.update({{"prompts_file", ""},
                  {"stream", ""},
                  {"shots", request.shots},
                  {"shot_frames", request.shots.empty() ? 0 : request.frames},
                  {"lora", text_of(request.lora)},
                  {"negative", request.negative},
                  {"seed", request.seed},
                  {"first", request.number},
                  {"count", 1},
                  {"image", request.image.string()},
                  {"video", request.video.string()},
                  {"signals", texts_of(request.signals)}});
  for (const auto& [name, its] : {std::pair{"frames", request.shots.empty() ? request.frames : 0},
                                  {"height", request.height},
                                  {"width", request.width},
                                  {"steps", request.steps}})
    if (its > 0) options[name] = its;
  if (request.fps > 0) options["fps"] = request.fps;
  if (request.strength != 1) options["strength"] = request.strength;
  options["guidance"] = options_.guidance;
  return options;
}

json AboutVideo::known(const Request& request) const {
  json about = {{"prompt", request.prompt},      {"negative", request.negative},
                {"seed", request.seed},          {"number", request.number},
                {"guidance", options_.guidance}, {"precision", context_.spec().component("precision")->id},
                {"fps", pipeline_.fps(request)}, {"job", context_.spec().name},
                {"options", settings(request)}};
  about.update(made_with_);
  about.update(way());
  return about;
}

json AboutVideo::described(const Request& request, const MadeVideo& made) const {
  json about = known(request);
  about.update({{"steps", made.steps},
                {"nfe", made.nfe},
                {"model_calls", made.model_calls},
                {"frames", made.frames},
                {"height", made.height},
                {"width", made.width}});
  for (const auto& shot : made.shots)
    if (shot.at("frame") < made.frames) about["shots"].push_back(shot);
  if (has_cache())
    about.update({{"cache_tokens", made.cache_tokens},
                  {"cache_bytes", made.cache_bytes},
                  {"cache_text_bytes", made.text_bytes}});
  return about;
}

// How the latents are made.
json AboutVideo::way() const {
  json out = json::object();
  const auto of = [&](const char* slot) {
    const auto& use = *context_.spec().component(slot);
    out.update({{slot, use.id}, {std::string(slot) + "_options", use.options.values()}});
  };
  if (has_cache()) of("cache");
  if (!pipeline_.makes_codes())
    of("sampler");
  else
    out.update({{"temperature", options_.temperature}, {"top_k", options_.top_k}, {"top_p", options_.top_p}});
  return out;
}

}  // namespace kinora::core
