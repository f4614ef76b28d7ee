#include "core/plan/request.hpp"

#include <map>

#include "core/suggest.hpp"

namespace kinora::core::plan {
namespace {

// The nearest job of a kind among the inputs, and theirs.
const JobSpec* upstream(const RunFile& run, const JobSpec& job, const std::string& kind) {
  for (const size_t i : job.inputs) {
    const JobSpec& in = run.jobs.at(i);
    if (in.kind->spec.name == kind) return &in;
    if (const JobSpec* found = upstream(run, in, kind)) return found;
  }
  return nullptr;
}

Result<LatentSize> encoded(const RunFile& run, const JobSpec& job) {
  const auto unknown = [&] {
    return fail(KINORA_INVALID,
                "plan: job '{}' reads no encode job that tells the size of its latents; give "
                "--latent TxHxW",
                job.name);
  };
  const JobSpec* encode = upstream(run, job, "encode");
  if (!encode) return unknown();
  const ComponentUse* tokenizer = encode->component("tokenizer");
  if (!tokenizer)
    if (const JobSpec* trained = upstream(run, *encode, "train-tokenizer"))
      tokenizer = trained->component("tokenizer");
  if (!tokenizer) return unknown();
  const auto& o = encode->options;
  return latent_of(tokenizer->id, tokenizer->options.values(), o.at("frames"), o.at("height"), o.at("width"));
}

const std::map<std::string, Sequence>& sequences() {
  static const std::map<std::string, Sequence> all{{"parallel/cp-ring", Sequence::ring},
                                                   {"parallel/cp-ulysses", Sequence::ulysses},
                                                   {"parallel/cp-2d", Sequence::two_d},
                                                   {"parallel/stdit-hybrid", Sequence::hybrid},
                                                   {"parallel/balanced-sp", Sequence::balanced}};
  return all;
}

void add(Layout& l, const std::string& id, const nlohmann::json& o) {
  const auto size = o.value("size", int64_t{1});
  if (id == "parallel/tp") l.tp = size;
  if (id == "parallel/fsdp") l.fsdp = size, l.stage = o.value("stage", int64_t{3});
  if (id == "parallel/recompute") l.recompute_every = o.value("every", int64_t{1});
  if (const auto it = sequences().find(id); it != sequences().end()) {
    l.cp = size, l.sequence = it->second, l.ulysses = o.value("ulysses", int64_t{1});
  }
  if (id != "parallel/pp") return;
  l.pp = size, l.virtual_stages = o.value("virtual", int64_t{1});
  const std::string schedule = o.value("schedule", "1f1b");
  l.schedule = schedule == "gpipe"         ? Schedule::gpipe
               : schedule == "interleaved" ? Schedule::interleaved
                                           : Schedule::one_f_one_b;
  l.send_conditioning = o.value("conditioning", "recompute") == "send";
}

}  // namespace

Result<const JobSpec*> train_job(const RunFile& run, const std::string& name) {
  std::vector<std::string> names;
  const JobSpec* found = nullptr;
  for (const auto& job : run.jobs) {
    if (job.kind->spec.name != "train") continue;
    names.push_back(job.name);
    if (name.empty() || job.name == name) found = &job;
  }
  if (name.empty() && names.size() > 1)
    return fail(KINORA_INVALID, "plan: which train job? --job {}{}", names[0],
                did_you_mean_or_list("", names, "there are"));
  if (!found)
    return fail(KINORA_INVALID, "plan: {} has no train job{}{}", run.file.filename().string(),
                name.empty() ? "" : " '" + name + "'",
                name.empty() ? "" : did_you_mean_or_list(name, names, "there are"));
  return found;
}

Result<Problem> problem_of(const RunFile& run, const JobSpec& job, const Cluster& cluster,
                           const std::optional<LatentSize>& given) {
  LatentSize latent{};
  if (given) {
    latent = *given;
  } else {
    const auto found = encoded(run, job);
    if (!found) return found.failure();
    latent = *found;
  }
  const JobSpec* encode = upstream(run, job, "encode");
  const ComponentUse* model = job.component("model");
  const auto shape = shape_of(model->id, model->options.values(), latent,
                              encode ? encode->options.at("max_tokens").get<int64_t>() : 512);
  if (!shape) return shape.failure();
  return Problem{*shape, cluster, {}, job.options.at("batch").get<int64_t>()};
}

Result<std::optional<Layout>> layout_of(const JobSpec& job, const Problem& p) {
  Layout l;
  bool any = false;
  for (const ComponentUse* use : job.list("parallel")) {
    if (use->id == "parallel/single") continue;
    any = true;
    add(l, use->id, use->options.values());
  }
  if (!any) return std::optional<Layout>();
  int64_t* open = &l.dp;  // takes the GPUs that are left: a strategy without a size, else ddp
  for (int64_t* axis : {&l.pp, &l.fsdp, &l.cp, &l.tp})
    if (*axis == 0) *axis = 1, open = axis;
  const int64_t rest = l.size();
  if (p.cluster.size() % rest == 0) *open = p.cluster.size() / rest;
  const int64_t microbatches = l.data() * job.options.at("accumulate").get<int64_t>();
  if (p.batch % microbatches)
    return fail(KINORA_INVALID, "plan: job '{}': batch = {} is not divisible by dp*fsdp*accumulate = {}",
                job.name, p.batch, microbatches);
  l.micro = p.batch / microbatches;
  return std::optional<Layout>(l);
}

}  // namespace kinora::core::plan
