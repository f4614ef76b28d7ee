// The layout of a run's ranks: the sizes of the mesh's axes and what each strategy does on its axis.
//
// Written "tp=2,cp=4,pp=4,virtual=2": omitted values are 1 or the default. The axes, outermost first, are pp,
// dp, fsdp, cp, tp (core/torch/ranks/mesh.hpp): tensor parallelism's ranks are neighbours.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/planner/cluster.hpp"
#include "apps/planner/shape.hpp"
#include "core/base/status.hpp"

namespace kinora::core::plan {

// Strategy of cp: parallel/cp-ring, cp-ulysses, cp-2d, stdit-hybrid, balanced-sp.
enum class Sequence { ring, ulysses, two_d, hybrid, balanced };
// Schedules of parallel/pp.
enum class Schedule { gpipe, one_f_one_b, interleaved };

const char* name_of(Sequence);
const char* name_of(Schedule);

struct Layout {
  int64_t pp = 1, dp = 1, fsdp = 1, cp = 1, tp = 1;
  Sequence sequence = Sequence::ring;
  int64_t ulysses = 1;  // for cp-2d: ranks that exchange heads; the ring has cp / ulysses
  Schedule schedule = Schedule::one_f_one_b;
  int64_t virtual_stages = 1;
  bool send_conditioning = false;  // sent between stages, instead of computed in each
  int64_t stage = 3;               // for fsdp: 1 cuts the optimizer, 2 gradients too, 3 parameters too
  bool shard_over_cp = false;      // fsdp cuts over cp too, as in Megatron and torchtitan
  int64_t recompute_every = 0;     // blocks to recompute: 0 none, 1 all, 2 every other
  int64_t micro = 1;               // samples per microbatch

  int64_t size() const { return pp * dp * fsdp * cp * tp; }
  int64_t data() const { return dp * fsdp; }
  int64_t shards() const { return fsdp * (shard_over_cp ? cp : 1); }  // pieces that fsdp cuts into
  // Microbatches per step.
  int64_t accumulate(int64_t batch) const { return batch / (data() * micro); }

  // "pp=4 (interleaved x2) dp=2 tp=2 cp=4 (cp-ring)"; only sizes other than 1.
  std::string text() const;
  // "pp=4,dp=2,cp=4,tp=2", as parse_layout reads it.
  std::string words() const;
  // parallel = [{ use = "tp", size = 2 }, ...], as in a train job.
  std::string toml() const;
};

// KINORA_ERROR_INVALID names the wrong word.
Result<Layout> parse_layout(std::string_view text);

// The run to lay out.
struct Problem {
  Shape shape;
  Cluster cluster;
  Efficiency efficiency;
  int64_t batch = 1;        // samples per step, over all ranks
  std::string precision{};  // of the job, "nvfp4"; times and memory are bfloat16's
  // Why the job's precision refuses a layout; "": it does not. Null: it refuses none.
  std::function<std::string(const Layout&)> refusal{};
};

// The rules of parallelism that the layout breaks, with their numbers. Empty: the layout is legal, and a
// train job with it passes `kinora check`. Memory is not checked.
std::vector<std::string> broken_rules(const Layout&, const Problem&);
// The parts of a legal layout that waste ranks or work. A requested layout with such parts is priced all the
// same; none is proposed.
std::vector<std::string> vanities(const Layout&, const Problem&);

// Calls `give` for every legal layout without vanities. recompute_every is 0 in all of them. Microbatch sizes
// are 1, 2, 4 ... 64 samples.
void each_layout(const Problem&, const std::function<void(const Layout&)>& give);

}  // namespace kinora::core::plan
