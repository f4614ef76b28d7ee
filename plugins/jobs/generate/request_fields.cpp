#include "plugins/jobs/generate/request_fields.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/facts.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/generate/check_generate.hpp"
#include "plugins/jobs/inference/request_inputs.hpp"
#include "plugins/jobs/inference/requests.hpp"

namespace kinora::core {

using nlohmann::json;

RequestFields::RequestFields(JobContext& context, const GenerateOptions& options,
                             inference::Pipeline& pipeline)
    : context_(context),
      options_(options),
      pipeline_(pipeline),
      begins_with_text_(begins_with_text_alone(context, options)),
      bytes_(pipeline) {}

json RequestFields::defaults() const {
  const auto& shape = pipeline_.shape();
  const auto& info = pipeline_.tokenizer_info();
  const int64_t wanted = pipeline_.wanted_frames({});
  return {{"width", shape[3] * info.width},
          {"height", shape[2] * info.height},
          {"num_frames", wanted > 0 ? wanted : pipeline_.frames()},
          {"fps", pipeline_.spec().fps > 0 ? pipeline_.spec().fps : pipeline_.spec().latents.fps},
          {"guidance_scale", options_.guidance}};
}

json RequestFields::inputs() const {
  json out = json::array();
  if (pipeline_.reads_text()) out.push_back("text");
  if (!begins_with_text_) out.insert(out.end(), {"image", "video"});
  return out;
}

json RequestFields::outputs() const {
  Request picture;
  picture.frames = 1;
  if (defaults().at("num_frames") == 1) return json::array({"image"});
  if (!catching([&] { return pipeline_.shape_of(picture); })) return json::array({"video"});
  return json::array({"video", "image"});
}

json RequestFields::checked(const json& message) {
  json out{{"checked", message.at("check")}};
  const char* of = "lora";  // the field that an error is of
  try {
    lora_of(message.at("fields"));
    of = "";
    json fields = complete(message.at("fields"));
    of = "input_reference";
    require_beginning(fields);
    of = "";
    const Request request = request_of(fields);
    const kinora_run run{.struct_size = sizeof run};
    if (const inference::RequestInputs inputs(pipeline_, request, run); request.frames == 0)
      fields["num_frames"] = inputs.pixel_frames();
    out["alike"] = alike(request, pipeline_.open_sampler(request)->levels().size());
    out["bytes"] = pipeline_.parallel().world() * bytes_.of(fields);
    out["fields"] = std::move(fields);
  } catch (const std::exception& e) {
    out["error"] = e.what();
    out["param"] = of;
  }
  return out;
}

// A model that makes its video in parts has keys and values of each video, sessions on several ranks are alone, and
// given frames change what a call reads. An adapter is of all videos of a call.
std::string RequestFields::alike(const Request& r, size_t levels) const {
  const bool is_given = !r.image.empty() || !r.last_image.empty() || !r.video.empty() || !r.shots.empty();
  const bool is_in_parts = pipeline_.makes_codes() || pipeline_.spec().rule.teacher_forcing;
  if (is_given || is_in_parts || pipeline_.parallel().world() > 1) return "";
  return json::array({r.height, r.width, r.frames, r.fps, levels, r.guidance[0].is_guided(),
                      r.guidance[1].is_guided(), r.lora.name, r.lora.scale})
      .dump();
}

// The rule of check_generate().
void RequestFields::require_beginning(const json& fields) const {
  const bool is_changed = fields.value("strength", options_.strength) < 1;
  if (begins_with_text_ && (fields.contains("image") || (fields.contains("video") && !is_changed)))
    throw Error(KINORA_ERROR_INVALID,
                "this model begins with a text alone; leave the file out, or set strength below 1 to "
                "change a video");
}

// Without the field, that of the job; with the name "", none.
LoraUse RequestFields::lora_of(const json& fields) const {
  const json given = fields.value("lora", json());
  if (!given.is_object()) return lora_use(options_.lora, pipeline_.spec().loras);
  LoraUse out = lora_use(text_in(given, "name"), pipeline_.spec().loras);
  if (!out.name.empty()) out.scale = given.value("scale", out.scale);
  return out;
}

// The fields with all that the pipeline decides.
json RequestFields::complete(json fields) {
  json all = defaults();
  all.update(fields);
  if (const std::string given = text_in(all, "input_reference"); !given.empty()) {
    const int64_t length = pipeline_.files().length(given);
    all[length == 1 ? "image" : "video"] = given;
    all.erase("input_reference");
    const double its = length == 1 ? 0 : pipeline_.files().rate(given);
    if (its > 0 && !fields.contains("fps")) all["fps"] = its;
    const bool has_length =
        fields.contains("num_frames") || fields.contains("seconds") || fields.contains("shots");
    if (fields.value("strength", 1.0) < 1 && !has_length) all["num_frames"] = most_whole(length);
  }
  if (fields.value("strength", 1.0) < 1 && !all.contains("video") && options_.video.empty())
    throw Error(KINORA_ERROR_INVALID, "strength is the share of steps that change a video; give a video");
  const double fps = number_in(all, "fps");
  if (all.contains("shots")) {
    if (all.contains("seconds"))
      throw Error(KINORA_ERROR_INVALID, "shots have their own lengths; leave out seconds");
    if (!fields.contains("num_frames")) all.erase("num_frames");  // else it cuts their end
  } else if (all.contains("seconds")) {
    if (fields.contains("num_frames"))
      throw Error(KINORA_ERROR_INVALID, "seconds and num_frames are both given; leave one of them out");
    all["num_frames"] = whole(number_in(all, "seconds") * fps);
  }
  all.erase("seconds");
  if (const LoraUse lora = lora_of(fields); !lora.name.empty() || !options_.lora.empty())
    all["lora"] = {{"name", lora.name}, {"scale", lora.scale}};
  else
    all.erase("lora");
  return all;
}

// The least number of frames that the pipeline makes and that lasts so long.
int64_t RequestFields::whole(double frames) const {
  const auto least = std::max<int64_t>(static_cast<int64_t>(std::ceil(frames - 1e-6)), 1);
  if (pipeline_.spec().rule.teacher_forcing) return least;  // a longer last chunk is cut
  const int64_t time = pipeline_.tokenizer_info().time;
  return 1 + (least - 1 + time - 1) / time * time;
}

// The most frames that the pipeline makes of a video of this length.
int64_t RequestFields::most_whole(int64_t length) const {
  if (pipeline_.spec().rule.teacher_forcing) return length;
  const int64_t time = pipeline_.tokenizer_info().time;
  return 1 + (length - 1) / time * time;
}

Request RequestFields::request_of(const json& fields) const {
  GenerateOptions o = options_of(fields);
  Request out = requests(context_, o).front();
  out.frames = fields.value("num_frames", int64_t{0});
  out.height = fields.at("height");
  out.width = fields.at("width");
  out.fps = fields.at("fps");
  out.steps = fields.value("steps", int64_t{0});
  return out;
}

GenerateOptions RequestFields::options_of(const json& fields) const {
  GenerateOptions o = options_;
  o.prompts_file.clear();
  o.count = 1;
  o.shots = fields.value("shots", std::vector<std::string>());
  o.prompts.clear();
  if (o.shots.empty()) o.prompts = {text_in(fields, "prompt")};
  if (fields.contains("negative_prompt")) o.negative = text_in(fields, "negative_prompt");
  o.seed = fields.value("seed", o.seed);
  if (fields.contains("image")) o.image = text_in(fields, "image");
  if (fields.contains("video")) o.video = text_in(fields, "video");
  o.guidance = fields.at("guidance_scale");
  o.strength = fields.value("strength", o.strength);
  o.lora = text_of(lora_of(fields));
  return o;
}

}  // namespace kinora::core
