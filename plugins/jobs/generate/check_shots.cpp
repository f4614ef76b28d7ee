#include "plugins/jobs/generate/check_shots.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/pipeline_spec.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/shots.hpp"

namespace kinora::core {
namespace {

const char* place_of_shots(const GenerateOptions& o) { return o.shots.empty() ? "prompts_file" : "shots"; }

// Empty: there are none, or they are in seconds and the frames per second are not known yet.
ShotList listed(JobCheck& check, const GenerateOptions& o, const Request& request, int64_t time) {
  auto shots = shots_of(request.shots);
  double fps = o.fps;
  if (const JobSpec* encode = check.upstream("encode"); encode && fps == 0)
    if (const auto encoded = catching([&] { return LatentFacts::of_folder(check.folder_of(*encode)); }))
      fps = encoded->fps;
  if (shots.empty() || (fps <= 0 && std::ranges::any_of(shots, [](const Shot& s) { return s.chunks == 0; })))
    return {};
  return {std::move(shots), {.jump = o.shot_jump}, fps, inference::frame_rule_of(check, o).chunks(), time};
}

// Positions in time from the first latent frame to the last one, jumps at cuts included; 0: unknown.
int64_t positions_of(const ShotList& list, const FrameOptions& rule) {
  if (list.empty()) return 0;
  const int64_t last = list.frames() - 1;
  const auto times = list.at(generating_rule(rule), last, 1).times;
  return 1 + (times.empty() ? last : times.back());
}

}  // namespace

int64_t latent_frames_of(JobCheck& check, const GenerateOptions& o, const Request& request, int64_t time,
                         int64_t otherwise) {
  if (request.shots.empty()) return otherwise;
  const ShotList list = listed(check, o, request, time);
  return list.empty() ? 0 : list.frames();
}

void check_shots(JobCheck& check, const GenerateOptions& o, const std::string& why_no_cache) {
  const auto all = catching([&] { return requests(check, o); });
  if (why_no_cache.empty() || !all) return;  // what requests() refuses is a problem already
  const size_t most = inference::frame_rule_of(check, o).teacher_forcing ? 1 : 0;
  if (std::ranges::any_of(*all, [&](const Request& r) { return r.shots.size() > most; }))
    check.problem(place_of_shots(o), "shots need a cache of keys and values: " + why_no_cache);
}

void check_positions(JobCheck& check, const GenerateOptions& o, const ComponentUse& model, int64_t time) {
  const auto& its = model.options.values();
  if (its.value("learnable_pos_embed", json()) != true) return;
  const auto largest = its.value("max_size", std::vector<int64_t>());
  const auto rule = inference::frame_rule_of(check, o);
  const auto all = catching([&] { return requests(check, o); });
  if (largest.empty() || !rule.teacher_forcing || !all) return;
  int64_t needed = 0;
  for (const auto& request : *all)
    needed = std::max(needed, positions_of(listed(check, o, request, time), rule));
  if (needed > largest[0])
    check.problem(
        place_of_shots(o),
        fmt::format("the shots need {} positions in time, jumps at cuts included, and {} has learnt {} "
                    "(max_size); make them shorter, lower shot_jump, or train with a larger max_size",
                    needed, model.id, largest[0]));
}

}  // namespace kinora::core
