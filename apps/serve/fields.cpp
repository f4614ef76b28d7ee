#include "apps/serve/fields.hpp"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/ranges.h>

#include "apps/serve/api_error.hpp"
#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;

constexpr size_t kLongestText = 64 << 10;

[[noreturn]] void refuse(const std::string& name, const std::string& expected) {
  throw ApiError(400, name + ": expected " + expected, "invalid_value", name);
}

// Forms have numbers as texts.
double number(const std::string& name, const json& value, double least, double most) {
  double out = NAN;
  if (value.is_number()) {
    out = value.get<double>();
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size()) out = NAN;
  }
  if (!(out >= least && out <= most)) refuse(name, fmt::format("a number from {} to {}", least, most));
  return out;
}

int64_t whole(const std::string& name, const json& value, double least, double most) {
  const double out = number(name, value, least, most);
  if (out != std::floor(out)) refuse(name, "a whole number");
  return static_cast<int64_t>(out);
}

std::string text(const std::string& name, const json& value) {
  if (!value.is_string()) refuse(name, "a text");
  const auto& out = value.get_ref<const std::string&>();
  if (out.size() > kLongestText) refuse(name, fmt::format("at most {} bytes", kLongestText));
  if (core::valid_utf8(out) != out || out.find('\0') != std::string::npos) refuse(name, "UTF-8 without NUL");
  return out;
}

void take_size(const json& value, json& out) {
  const std::string size = text("size", value);
  int64_t width = 0, height = 0;
  const char* end = size.data() + size.size();
  auto at = std::from_chars(size.data(), end, width);
  if (at.ec == std::errc() && at.ptr != end && *at.ptr == 'x') at = std::from_chars(at.ptr + 1, end, height);
  if (at.ec != std::errc() || at.ptr != end || width < 1 || height < 1 || width > 16384 || height > 16384)
    refuse("size", "WIDTHxHEIGHT in pixels, such as 1280x704");
  out["width"] = width;
  out["height"] = height;
}

// A list, or in a form its JSON.
void take_shots(const json& value, json& out) {
  const json shots = value.is_string() ? core::parse_facts(value.get<std::string>()) : value;
  if (!shots.is_array() || shots.empty())
    refuse("shots", "a list of shots: [{\"prompt\": \"...\", \"seconds\": 4}]");
  out["shots"] = json::array();
  for (const auto& shot : shots) {
    if (!shot.is_object()) refuse("shots", "objects such as {\"prompt\": \"...\", \"seconds\": 4}");
    if (shot.value("prompt", json()).is_string()) text("shots", shot.at("prompt"));
    out["shots"].push_back(shot.dump());
  }
}

// A name, or an object with its scale; in a form also its JSON.
void take_lora(const json& value, json& out) {
  const bool is_json = value.is_string() && value.get_ref<const std::string&>().starts_with('{');
  json given = is_json ? core::parse_facts(value.get<std::string>()) : value;
  if (given.is_string()) given = {{"name", given}};
  const char* expected = "a name, or {\"name\": \"toon\", \"scale\": 0.7}";
  if (!given.is_object() || !given.value("name", json()).is_string()) refuse("lora", expected);
  json taken{{"name", text("lora", given.at("name"))}};
  if (taken.at("name").get_ref<const std::string&>().find('=') != std::string::npos) refuse("lora", expected);
  for (const auto& [key, its] : given.items()) {
    if (key == "scale")
      taken[key] = number("lora", its, -100, 100);
    else if (key != "name")
      refuse("lora", expected);
  }
  out["lora"] = taken;
}

using Take = std::function<void(const json&, json&)>;

const std::map<std::string, Take>& takers() {
  constexpr double kMost = 1e6;
  static const std::map<std::string, Take> all{
      {"prompt", [](const json& v, json& out) { out["prompt"] = text("prompt", v); }},
      {"model", [](const json& v, json& out) { out["model"] = text("model", v); }},
      {"negative_prompt",
       [](const json& v, json& out) { out["negative_prompt"] = text("negative_prompt", v); }},
      {"size", take_size},
      {"shots", take_shots},
      {"seconds", [](const json& v, json& out) { out["seconds"] = number("seconds", v, 0.01, kMost); }},
      {"fps", [](const json& v, json& out) { out["fps"] = number("fps", v, 0.01, 1000); }},
      {"num_frames", [](const json& v, json& out) { out["num_frames"] = whole("num_frames", v, 1, kMost); }},
      {"steps", [](const json& v, json& out) { out["steps"] = whole("steps", v, 1, 10000); }},
      {"seed", [](const json& v, json& out) { out["seed"] = whole("seed", v, 0, 9007199254740991.0); }},
      {"guidance_scale",
       [](const json& v, json& out) { out["guidance_scale"] = number("guidance_scale", v, 0, 1000); }},
      {"strength", [](const json& v, json& out) { out["strength"] = number("strength", v, 0.01, 1); }},
      {"lora", take_lora}};
  return all;
}

// file: what the route calls its file.
void take(const std::string& name, const json& value, json& out, const std::string& file) {
  const auto at = takers().find(name);
  if (at != takers().end()) return value.is_null() ? void() : at->second(value, out);
  if (name == file) refuse(name, "a file in a form (multipart/form-data), with its name");
  std::vector<std::string> names;
  for (const auto& [one, _] : takers()) names.push_back(one);
  names.push_back(file);
  throw ApiError(400,
                 fmt::format("unknown parameter '{}'{}; there are {}", name, core::did_you_mean(name, names),
                             fmt::join(names, ", ")),
                 "unknown_parameter", name);
}

// An object with the id of a video of this server; in a form its JSON.
void take_video(const json& value, VideoFields& out) {
  const json given = value.is_string() ? core::parse_facts(value.get<std::string>()) : value;
  out.video = given.is_object() && given.size() == 1 ? core::text_in(given, "id") : "";
  if (out.video.empty()) refuse("video", "a file in a form, or {\"id\": \"video_...\"} of a completed video");
}

void require_prompt(const json& fields) {
  if (!fields.contains("prompt") && !fields.contains("shots"))
    throw ApiError(400, "prompt is missing", "missing", "prompt");
  // OpenAI's clients always send a prompt.
  if (fields.contains("shots") && !core::text_in(fields, "prompt").empty())
    throw ApiError(400, "prompt and shots both say what to show; leave one of them out", "invalid_value",
                   "prompt");
}

}  // namespace

VideoFields fields_of(const json& body, const std::string& file) {
  if (!body.is_object()) throw ApiError(400, "the body is not a JSON object", "invalid_json");
  VideoFields out{.fields = json::object()};
  for (const auto& [name, value] : body.items()) {
    if (name == "video" && file == name && !value.is_null())
      take_video(value, out);
    else
      take(name, value, out.fields, file);
  }
  require_prompt(out.fields);
  return out;
}

VideoFields fields_of(const std::vector<FormPart>& form, const std::string& file) {
  VideoFields out{.fields = json::object()};
  json lora;  // OpenAI's client sends an object as lora[name] and lora[scale]
  for (const auto& part : form) {
    if (!part.file && part.name.starts_with("lora[") && part.name.ends_with(']')) {
      lora[part.name.substr(5, part.name.size() - 6)] = part.value;
    } else if (!part.file && file == "video" && part.name == "video[id]") {  // of the same client
      take_video(json{{"id", part.value}}, out);
    } else if (!part.file && file == "video" && part.name == file) {
      take_video(part.value, out);
    } else if (!part.file) {
      take(part.name, part.value, out.fields, file);
    } else if (part.name != file) {
      refuse(part.name, "a value, not a file; a file is called " + file);
    } else if (!out.files.empty()) {
      refuse(part.name, "one file");
    } else {
      out.files.push_back({"input_reference", part.file->path(), part.file});
    }
  }
  if (!out.video.empty() && !out.files.empty()) refuse("video", "a file or an id, not both");
  take("lora", lora, out.fields, file);
  require_prompt(out.fields);
  return out;
}

}  // namespace kinora::serve
