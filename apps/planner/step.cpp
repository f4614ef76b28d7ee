// The seconds of one optimizer step: its simulation, its closed form, and the schedules of pipelines.
#include <algorithm>
#include <cmath>

#include "apps/planner/cost.hpp"
#include "apps/planner/durations.hpp"
#include "apps/planner/simulate.hpp"

namespace kinora::core::plan {
namespace {

// Durations that both the simulation and the estimate use.
struct Costs {
  Costs(const Layout& l, const Problem& p, const BlockTime& b) : block(b) {
    const Links links(p.cluster, p.efficiency);
    const Shape& s = p.shape;
    const double layer = s.layer_parameters / static_cast<double>(l.tp);
    const Group shards = shard_group(l, p.cluster), replicas = replica_group(l, p.cluster);
    cut = l.stage == 3 && shards.size > 1;
    forward = b.forward;
    again = l.recompute_every ? b.forward / static_cast<double>(l.recompute_every) : 0;
    backward = b.backward + again;
    if (cut) {
      gather = links.gather(2 * layer, shards);
      scatter = links.gather(4 * layer, shards);
    }
    outer = outer_time(l, p);
    const double n = static_cast<double>(l.micro * s.tokens()) / static_cast<double>(l.cp * l.tp);
    double message = 2 * n * static_cast<double>(s.width);
    if (l.send_conditioning) message += 2 * static_cast<double>(l.micro * s.shared_values());
    if (l.pp > 1) send = links.step(message, pipeline_group(l, p.cluster));
    if (s.teacher_forcing)
      encode = s.encode_flops * encoded(l, s) * static_cast<double>(l.micro) /
               (p.efficiency.matrix * p.cluster.gpu.peak);
    reduce_layer = links.all_reduce(4 * layer / static_cast<double>(l.shards()), replicas) +
                   (shards.size > 1 && !cut ? links.gather(4 * layer, shards) : 0);
    per_stage = std::ceil(static_cast<double>(s.layers) / static_cast<double>(l.pp));
    const double parameters = per_stage * layer + s.outer;
    // Reads and writes: master weights, two moments and the gradient in float32, the weights in BF16.
    optimizer = Kernels(p).memory(30 * parameters / static_cast<double>(l.shards()));
    if (shards.size > 1 && !cut) optimizer_gather = links.gather(2 * parameters, shards);
  }
  // Latent frames that a rank encodes: its own and a halo, or all of them.
  static double encoded(const Layout& l, const Shape& s) {
    if (l.sequence != Sequence::balanced || l.cp == 1) return static_cast<double>(s.frames);
    return std::min(static_cast<double>(s.frames), static_cast<double>(s.frames / l.cp + s.encode_halo));
  }

  const BlockTime& block;
  bool cut = false;
  double forward = 0, backward = 0, again = 0, gather = 0, scatter = 0, outer = 0, send = 0, encode = 0,
         reduce_layer = 0, per_stage = 0, optimizer = 0, optimizer_gather = 0;
};

constexpr const char *kForward = "forward", *kBackward = "backward", *kShards = "fsdp", *kStage = "pp",
                     *kReplicas = "gradient sum", *kOuter = "embedding and head", *kOptimizer = "optimizer",
                     *kEncode = "video encoding";

// Number of blocks of a stage's chunk: layers / (P v), with one more in the first chunks if they do not
// divide.
int64_t blocks_of(const Layout& l, const Shape& s, int64_t stage, int64_t chunk) {
  const int64_t parts = l.pp * l.virtual_stages, index = chunk * l.pp + stage;
  return s.layers / parts + (index < s.layers % parts ? 1 : 0);
}

// One step of `microbatches`: every stage's compute stream, its fsdp stream, one of gradient sums, and one of
// messages in each direction.
class World {
 public:
  World(const Layout& l, const Problem& p, const Costs& c, int64_t microbatches)
      : l_(l), p_(p), c_(c), m_(microbatches), chunks_(l.virtual_stages), stages_(static_cast<size_t>(l.pp)) {
    for (auto& done : done_) done.resize(static_cast<size_t>(l.pp * chunks_ * m_));
    for (auto& s : stages_)
      for (int* stream : {&s.compute, &s.shards, &s.sums, &s.there, &s.back}) *stream = sim_.stream();
  }

  double run() {
    for (int64_t s = 0; s < l_.pp; ++s) work(s);
    if (l_.pp > 1)
      for (int64_t s = 0; s < l_.pp; ++s) connect(s);
    return seconds_ = sim_.run();
  }
  // Times of the busiest stage.
  std::map<std::string, double> spent() const {
    std::map<std::string, double> best;
    double most = -1;
    for (const auto& s : stages_) {
      auto busy = sim_.busy(s.compute);
      double sum = 0, waited = 0;
      for (const auto& [what, t] : busy) sum += t;
      if (sum <= most) continue;
      most = sum;
      for (const auto& [what, t] : sim_.idle(s.compute))
        busy[std::string("waits for ") + what] += t, waited += t;
      busy[std::string("waits for ") + kStage] += seconds_ - sum - waited;
      best = std::move(busy);
    }
    return best;
  }

 private:
  struct Span {
    Simulation::Task first = Simulation::kNone, last = Simulation::kNone;
  };
  struct Stage {
    int compute = 0, shards = 0, sums = 0, there = 0, back = 0;
    Simulation::Task last = Simulation::kNone, before = Simulation::kNone;  // most recent blocks
    Simulation::Task unscattered = Simulation::kNone, scattered = Simulation::kNone;
  };
  Span& span(const Turn& t, int64_t stage) {
    return done_[t.backward][static_cast<size_t>((stage * chunks_ + t.chunk) * m_ + t.microbatch)];
  }

  void work(int64_t index) {
    Stage& s = stages_[static_cast<size_t>(index)];
    Simulation::Task summed = Simulation::kNone;
    std::vector<int64_t> left(static_cast<size_t>(chunks_), m_);
    for (const Turn& t : turns(l_, index, m_)) {
      Span& at = span(t, index);
      const bool first = index == 0 && t.chunk == 0, final = index == l_.pp - 1 && t.chunk == chunks_ - 1;
      const auto begin = does(s, 0, kForward);
      if (first && !t.backward && c_.encode > 0) does(s, c_.encode, kEncode);
      if (first || final) does(s, (t.backward ? 2 : 1) * c_.outer, kOuter);
      blocks(s, t, blocks_of(l_, p_.shape, index, t.chunk));
      at = {begin, s.last};
      if (t.backward && --left[static_cast<size_t>(t.chunk)] == 0)
        summed =
            sim_.add(s.sums, static_cast<double>(blocks_of(l_, p_.shape, index, t.chunk)) * c_.reduce_layer,
                     kReplicas, s.last);
    }
    scatter(s);
    sim_.wait(does(s, c_.optimizer, kOptimizer), summed);
    sim_.wait(s.last, s.scattered);
    if (c_.optimizer_gather > 0) {
      const auto whole = sim_.add(s.shards, c_.optimizer_gather, kShards, s.last);
      sim_.wait(does(s, 0, kOptimizer), whole);
    }
  }

  // Parameters cut by fsdp are gathered while the previous block computes, so two blocks are held; gradients
  // are scattered after the next gather, which they must not delay.
  void blocks(Stage& s, const Turn& t, int64_t n) {
    const double seconds = t.backward ? c_.backward : c_.forward;
    const char* what = t.backward ? kBackward : kForward;
    if (!c_.cut) {
      does(s, static_cast<double>(n) * seconds, what);
      return;
    }
    for (int64_t b = 0; b < n; ++b) {
      const auto gathered = sim_.add(s.shards, c_.gather, kShards, s.before);
      scatter(s);
      s.before = s.last;
      sim_.wait(does(s, seconds, what), gathered);
      if (t.backward) s.unscattered = s.last;
    }
  }
  void scatter(Stage& s) {
    if (s.unscattered == Simulation::kNone) return;
    s.scattered = sim_.add(s.shards, c_.scatter, kShards, s.unscattered);
    s.unscattered = Simulation::kNone;
  }

  // Activations are sent to the next virtual stage, their gradients back.
  void connect(int64_t index) {
    const Stage& s = stages_[static_cast<size_t>(index)];
    for (const Turn& t : turns(l_, index, m_)) {
      const int64_t to = t.chunk * l_.pp + index + (t.backward ? -1 : 1);
      if (to < 0 || to >= l_.pp * chunks_) continue;
      const auto message = sim_.add(t.backward ? s.back : s.there, c_.send, kStage, span(t, index).last);
      sim_.wait(span({t.backward, to / l_.pp, t.microbatch}, to % l_.pp).first, message);
    }
    // The last virtual stage's backward follows its own forward, which the order of turns already ensures.
  }

  Simulation::Task does(Stage& s, double seconds, const char* what) {
    return s.last = sim_.add(s.compute, seconds, what);
  }

  const Layout& l_;
  const Problem& p_;
  const Costs& c_;
  const int64_t m_, chunks_;
  double seconds_ = 0;
  Simulation sim_;
  std::vector<Stage> stages_;
  std::vector<Span> done_[2];
};

// Splits the time of the blocks' forward and backward into its parts.
void break_down(std::map<std::string, double>& spent, const Costs& c) {
  const double forward = spent[kForward], backward = spent[kBackward];
  spent.erase(kForward), spent.erase(kBackward);
  const double blocks = forward / c.forward;
  for (const auto& [what, t] : c.block.spent) spent[what] += blocks * t;
  if (c.again > 0) spent["recomputation"] += backward - blocks * c.block.backward;
}

}  // namespace

Step simulate_step(const Layout& l, const Problem& p, const BlockTime& block) {
  const Costs costs(l, p, block);
  const int64_t all = l.accumulate(p.batch), some = std::max<int64_t>(2, 2 * l.pp),
                more = some + std::max<int64_t>(1, l.pp);
  Step out;
  World world(l, p, costs, std::min(all, more));
  out.seconds = world.run();
  out.spent = world.spent();
  if (all > more) {
    // After the warm-up every further round of microbatches takes the same time.
    World shorter(l, p, costs, some);
    const double before = shorter.run(),
                 rounds = static_cast<double>(all - more) / static_cast<double>(more - some);
    auto was = shorter.spent();
    for (auto& [what, t] : out.spent) t += rounds * (t - was[what]);
    out.seconds += rounds * (out.seconds - before);
  }
  break_down(out.spent, costs);
  const double gpus = static_cast<double>(p.cluster.size()), batch = static_cast<double>(p.batch);
  out.mfu = p.shape.step_flops() * batch / (out.seconds * gpus * p.cluster.gpu.peak);
  out.tokens_per_gpu = static_cast<double>(p.shape.tokens()) * batch / (out.seconds * gpus);
  return out;
}

double estimate_step(const Layout& l, const Problem& p, const BlockTime& block) {
  const Costs c(l, p, block);
  const double m = static_cast<double>(l.accumulate(p.batch)), P = static_cast<double>(l.pp);
  const double forward = c.cut ? std::max(c.forward, c.gather) : c.forward;
  const double backward = c.cut ? std::max(c.backward, c.gather + c.scatter) : c.backward;
  const double micro = c.per_stage * (forward + backward) + 3 * c.outer + c.encode;
  const double bubble = (P - 1) * (micro / static_cast<double>(l.virtual_stages) + 2 * c.send);
  return m * micro + bubble + c.gather + c.scatter + c.reduce_layer + c.optimizer + c.optimizer_gather;
}

// Schedules: GPipe (Huang et al. 2019, arXiv 1811.06965), 1F1B and its interleaved form (Narayanan et al.
// 2021, arXiv 2104.04473, section 2.2).

namespace {

// The k-th forward or backward of a stage: groups of P microbatches pass through one chunk after the other.
Turn interleaved(int64_t k, int64_t stages, int64_t chunks, bool backward) {
  const int64_t chunk = k / stages % chunks;
  return {backward, backward ? chunks - 1 - chunk : chunk, k / (stages * chunks) * stages + k % stages};
}

int64_t warm_up(const Layout& l, int64_t stage, int64_t all) {
  if (l.schedule == Schedule::gpipe) return all;
  if (l.schedule == Schedule::one_f_one_b) return std::min(all, l.pp - stage - 1);
  return std::min(all, 2 * (l.pp - stage - 1) + (l.virtual_stages - 1) * l.pp);
}

}  // namespace

std::vector<Turn> turns(const Layout& l, int64_t stage, int64_t microbatches) {
  const bool groups = l.schedule == Schedule::interleaved && l.pp > 1;
  const int64_t all = microbatches * l.virtual_stages, warm = l.pp > 1 ? warm_up(l, stage, all) : 0;
  const auto turn = [&](int64_t k, bool backward) {
    return groups ? interleaved(k, l.pp, l.virtual_stages, backward) : Turn{backward, 0, k};
  };
  std::vector<Turn> out;
  int64_t f = 0, b = 0;
  while (f < warm) out.push_back(turn(f++, false));
  while (f < all) out.push_back(turn(f++, false)), out.push_back(turn(b++, true));
  while (b < all) out.push_back(turn(b++, true));
  return out;
}

}  // namespace kinora::core::plan
