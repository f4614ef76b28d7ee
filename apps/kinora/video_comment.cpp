#include "apps/kinora/video_comment.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

constexpr const char* kSettings[] = {"negative",
                                     "first",
                                     "seed",
                                     "frames",
                                     "height",
                                     "width",
                                     "fps",
                                     "guidance",
                                     "guidance_2",
                                     "boundary",
                                     "batch_guidance",
                                     "guidance_convention",
                                     "signals",
                                     "strength",
                                     "crf",
                                     "condition_frames",
                                     "condition_from",
                                     "condition_sigma",
                                     "guidance_interval",
                                     "causal",
                                     "chunk",
                                     "first_chunk",
                                     "window",
                                     "sink",
                                     "teacher_forcing",
                                     "temperature",
                                     "top_k",
                                     "top_p",
                                     "max_tokens",
                                     "pad_text",
                                     "sigma_data",
                                     "encode_negative",
                                     "condition_timestep",
                                     "shots",
                                     "lora",
                                     "shot_pin",
                                     "shot_jump",
                                     "shot_frames"};
constexpr const char* kFiles[] = {"image", "last_image", "video", "noise", "prompts_file"};

// Members of a comment, checked as they are read.
class CommentReader {
 public:
  explicit CommentReader(const std::string& file) : file_(file) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{}: what it says of how it was made is not what Kinora writes: {}; "
                            "give the settings by hand, see "
                            "kinora generate --help",
                            file_, what));
  }

  json object(const json& in, const char* name) const {
    if (!in.contains(name)) return json::object();
    const json& found = in.at(name);
    if (!found.is_object()) refuse(fmt::format("\"{}\" must be an object", name));
    for (const auto& [key, value] : found.items())
      if (!is_plain(key)) refuse(fmt::format("a name in \"{}\" is not a short text", name));
    return found;
  }

  // Short and printable: it is shown in messages.
  std::string text(const json& in, const char* name) const {
    if (!in.contains(name)) return "";
    if (!is_plain(in.at(name))) refuse(fmt::format("\"{}\" must be a short text", name));
    return in.at(name).get<std::string>();
  }

  // Members "SLOT", an id, and "SLOT_options".
  VideoComment::Component component(const json& in, const std::string& slot) const {
    const std::string options = slot + "_options";
    VideoComment::Component out{text(in, slot.c_str()), object(in, options.c_str())};
    if (in.contains(slot) != in.contains(options))
      refuse(fmt::format("\"{}\" and \"{}\" belong together", slot, options));
    return out;
  }

  json made_with(const json& about) const {
    const json weights = object(about, "weights"), components = object(about, "components");
    for (const auto& [slot, digest] : weights.items())
      if (!is_plain(digest)) refuse("\"weights\" must hold digests");
    for (const auto& [slot, one] : components.items()) {
      const bool is_good = one.is_object() && one.contains("id") && is_plain(one.at("id")) &&
                           one.contains("version") && is_plain(one.at("version"));
      if (!is_good) refuse("\"components\" must hold objects with an id and a version");
    }
    return {{"weights", weights}, {"components", components}};
  }

 private:
  static bool is_plain(const json& value) {
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    return text.size() <= 200 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  }
  const std::string& file_;
};

}  // namespace

VideoComment read_video_comment(const std::string& file, const std::string& comment) {
  const json about = parse_facts(comment);
  if (!about.is_object() || !about.contains("options") || !about.contains("job"))
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: it does not say how it was made; only the MP4 of a generate job does", file));
  const CommentReader reader(file);
  VideoComment out;
  out.file = file;
  out.settings = out.files = json::object();
  out.job = reader.text(about, "job");
  out.sampler = reader.component(about, "sampler");
  out.cache = reader.component(about, "cache");
  out.made_with = reader.made_with(about);
  const json options = reader.object(about, "options");
  for (const char* name : kSettings)
    if (options.contains(name)) out.settings[name] = options.at(name);
  for (const char* name : kFiles) {
    if (!options.contains(name)) continue;
    if (!options.at(name).is_string()) reader.refuse(fmt::format("\"{}\" must be a path", name));
    out.files[name] = options.at(name);
  }
  if (!options.contains("prompts")) return out;
  const json &prompts = options.at("prompts"), shots = options.value("shots", json::array());
  const bool has_shots = shots.is_array() && !shots.empty();
  if (!prompts.is_array() || prompts.size() != (has_shots ? 0 : 1) || (!has_shots && !prompts[0].is_string()))
    reader.refuse("\"prompts\" must be a list of one text, or of none with \"shots\"");
  out.settings["shots"] = shots;
  out.settings["prompts"] = prompts;
  out.settings["count"] = 1;
  return out;
}

namespace {

// A served video tells a file by its name alone.
bool is_same_file(const json& told, const json& own) {
  if (told == own || !own.is_string()) return told == own;
  return told != "" && told == std::filesystem::path(own.get<std::string>()).filename().string();
}

// A video made without the file is made without it again; one made with another file needs the user's word
// for it.
void take_files(const VideoComment& comment, const std::set<std::string>& given, json& options) {
  for (const auto& [name, path] : comment.files.items()) {
    if (given.contains(name) || is_same_file(path, options.value(name, json()))) continue;
    const std::string how =
        name == "image" || name == "video" ? "--" + name + " FILE" : "--set JOB." + name + "=FILE";
    if (path != "")
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{}: it was made with {} {}, and a video's word for a file is not taken; give it with {}",
                              comment.file, name, path.dump(-1, ' ', true, json::error_handler_t::replace), how));
    options[name] = "";
  }
}

void take_component(const Registry& registry, const VideoComment& comment,
                    const VideoComment::Component& taken, ComponentUse& use) {
  const auto spec = registry.find(use.slot, taken.id);
  if (!spec) throw Error(KINORA_ERROR_DATA, fmt::format("{}: {}", comment.file, spec.failure().message));
  auto options = Options::make(**spec, taken.options);
  if (!options)
    throw Error(KINORA_ERROR_DATA, fmt::format("{}: {}", comment.file, options.failure().message));
  if (!options->paths().empty())
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format(
            "{}: options of its {} name files, and a video's word for a file is not taken; set them by hand",
            comment.file, taken.id));
  use.id = (*spec)->id;
  use.options = *std::move(options);
}

}  // namespace

void take_settings(const Registry& registry, const VideoComment& comment, const std::set<std::string>& given,
                   JobSpec& job) {
  json options = job.options;
  take_files(comment, given, options);
  for (const auto& [name, value] : comment.settings.items())
    if (!given.contains(name)) options[name] = value;
  auto checked = Options::make(*job.kind, options);
  if (!checked)
    throw Error(KINORA_ERROR_DATA, fmt::format("{}: {}", comment.file, checked.failure().message));
  job.options = checked->values();
  for (const auto& [slot, taken] : {std::pair{"sampler", &comment.sampler}, {"cache", &comment.cache}})
    for (auto& use : job.components)
      if (use.slot == slot && !given.contains(slot) && !taken->id.empty())
        take_component(registry, comment, *taken, use);
  job.made_with = comment.made_with;
}

}  // namespace kinora::core
