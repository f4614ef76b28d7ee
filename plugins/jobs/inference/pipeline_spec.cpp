#include "plugins/jobs/inference/pipeline_spec.hpp"

#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/rules.hpp"

namespace kinora::core::inference {

FrameOptions frame_rule_of(const JobView& job, const GenerateOptions& o) {
  const JobSpec* train = job.spec().component("model") ? nullptr : job.upstream("train");
  if (!train) return o;
  const auto& its = train->options;
  FrameOptions out;
  out.causal = its.at("causal"), out.teacher_forcing = its.at("teacher_forcing");
  out.chunk = its.at("chunk"), out.first_chunk = its.at("first_chunk");
  out.window = its.at("window"), out.sink = its.at("sink");
  return out;
}

namespace {

LatentFacts latents_of(const JobView& job, double sigma_data) {
  if (const JobSpec* encode = job.upstream("encode")) return LatentFacts::of_folder(job.folder_of(*encode));
  LatentFacts facts;
  facts.scale.sigma_data = sigma_data;
  return facts;
}

// The encoders that the model reads.
void add_encoders(const JobView& job, const ComponentSpec& model, PipelineSpec& out) {
  const auto source = [&](const char* slot, const char* input) {
    return takes_input(model, input) ? source_of(job, slot) : nullptr;
  };
  if (const JobSpec* from = source("text", "text")) {
    out.text = TextEncoder::parts_of(*from);
    out.parts["text"] = {shared_use(*from->component("text")), out.text->weights};
    out.parts["words"] = {shared_use(*from->component("words")), {}};
  }
  if (const JobSpec* from = source("image_encoder", "image"))
    out.parts["image_encoder"] = ImageEncoder::part_of(*from);
}

}  // namespace

std::string why_no_cache(const JobView& job, const GenerateOptions& o, bool has_two_experts) {
  if (!frame_rule_of(job, o).teacher_forcing)
    return "cache is for models that draw codes one by one, and for videos that are made chunk by chunk "
           "(teacher_forcing); this one is made at once";
  if (has_two_experts) return "cache is for one network, and this model has two experts; leave it out";
  if (o.condition_timestep == "shared")
    return "with condition_timestep = \"shared\" the keys of given frames differ from step to step, so no "
           "cache "
           "keeps them; leave it out";
  const std::string divided = why_sequences_are_divided(job);
  return divided.empty() ? "" : divided + ", or leave the cache out";
}

PipelineSpec pipeline_spec(const JobView& job, const GenerateOptions& o) {
  PipelineSpec out;
  out.name = job.spec().name;
  Part model = part_of(job, "model", "weights", "train");
  out.parts["tokenizer"] = part_of(job, "tokenizer", "tokenizer_weights", "train-tokenizer");
  out.rule = frame_rule_of(job, o);
  if (const auto two = two_experts(job, model)) {
    out.parts["model_2"] = {model.use, two->low};
    out.boundary = two->boundary;
  }
  const ComponentSpec& spec = *job.open(*model.use).spec;
  out.parts["model"] = std::move(model);
  const bool of_codes = NextToken::is_for(spec);
  const auto add = [&](const char* slot) {
    if (const auto* use = job.spec().component(slot)) out.parts[slot] = {shared_use(*use), {}};
  };
  add("precision");
  if (!of_codes) add("sampler");
  if (of_codes || why_no_cache(job, o, out.has("model_2")).empty()) add("cache");
  if (!of_codes) out.parts["loss"] = {shared_use(loss_of(job)), {}};
  out.loras = loras_of(job, o);
  add_encoders(job, spec, out);
  out.has_resident_experts = o.resident_experts == 2;
  const JobSpec* encode = job.upstream("encode");  // which says what the training saw
  out.encodes_empty_negative =
      o.encode_negative || (encode && encode->options.at("encode_empty").get<bool>());
  out.shots = shot_rule(o);
  out.shares_timestep = o.condition_timestep == "shared";
  out.latents = latents_of(job, o.sigma_data);
  out.size = {o.frames, o.height, o.width};
  out.fps = o.fps;
  out.encoded_fps = encode ? out.latents.fps : 0;
  out.is_trained = encode && job.upstream("train");
  out.seed = static_cast<uint64_t>(job.run().seed);
  out.device = o.device;
  out.cuda_graphs = o.cuda_graphs;
  out.kept = kept_digests(job.run().out);
  return out;
}

std::vector<LoraFile> loras_of(const JobView& job, const GenerateOptions& o) {
  return lora_files(o.loras, job.run().file.parent_path());
}

nlohmann::json with_lora(nlohmann::json made_with, const PipelineSpec& spec, const std::string& lora) {
  for (const auto& one : spec.loras)
    if (one.name == lora) made_with["weights"]["lora"] = digest_of(one, spec.kept);
  return made_with;
}

}  // namespace kinora::core::inference
