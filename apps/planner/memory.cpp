// The memory of the fullest rank of a layout.
#include <algorithm>
#include <cmath>

#include "apps/planner/cost.hpp"

namespace kinora::core::plan {

// 1F1B (Narayanan et al. 2021, arXiv 2104.04473): stage p of P keeps P - p microbatches. Interleaved keeps 2
// (P - 1) chunks before the steady state and (v - 1) P of the other virtual stages. GPipe keeps all.
int64_t chunks_in_flight(const Layout& l, int64_t microbatches) {
  if (l.schedule == Schedule::gpipe) return microbatches;
  if (l.schedule == Schedule::one_f_one_b) return std::min(microbatches, l.pp);
  return std::min(microbatches * l.virtual_stages, 2 * (l.pp - 1) + (l.virtual_stages - 1) * l.pp + 1);
}

namespace {

double activations(const Layout& l, const Problem& p, double chunk_layers) {
  const Shape& s = p.shape;
  const double tokens = static_cast<double>(l.micro * s.tokens()) / static_cast<double>(l.cp * l.tp);
  const double again =
      l.recompute_every ? std::ceil(chunk_layers / static_cast<double>(l.recompute_every)) : 0;
  const double layer = 2 * tokens * kept_channels(s), input = 2 * tokens * static_cast<double>(s.width);
  const double chunk = (chunk_layers - again) * layer + again * input;
  // A recomputed block is whole in memory during its backward.
  return chunk * static_cast<double>(chunks_in_flight(l, l.accumulate(p.batch))) + (again > 0 ? layer : 0);
}

// Data that cp has received and not yet used.
double exchanged(const Layout& l, const Problem& p) {
  if (l.cp == 1) return 0;
  const Shape& s = p.shape;
  const double tokens = static_cast<double>(l.micro * s.tokens()) / static_cast<double>(l.cp * l.tp);
  const double kv = 2 * 2 * tokens * static_cast<double>(s.kv_width());
  switch (l.sequence) {
    case Sequence::ring:
      return 4 * kv;        // the next block and this one, and their gradients in the backward
    case Sequence::hybrid:  // its attention over all frames is a ring; its exchanges happen at other times
      return std::max(4 * kv, 2 * 2 * tokens * static_cast<double>(s.width));
    default:
      return 2 * (kv + 2 * 2 * tokens * static_cast<double>(s.width));
  }
}

}  // namespace

std::vector<Held> held(const Layout& l, const Problem& p) {
  const Shape& s = p.shape;
  const double chunk_layers =
      std::ceil(static_cast<double>(s.layers) / static_cast<double>(l.pp * l.virtual_stages));
  const double layers =
      std::min(chunk_layers * static_cast<double>(l.virtual_stages), static_cast<double>(s.layers));
  const double layer = s.layer_parameters / static_cast<double>(l.tp);
  const double parameters = layers * layer + s.outer;
  const double cut = static_cast<double>(l.shards());
  const auto sharded = [&](int64_t from) { return l.stage >= from ? cut : 1.0; };
  std::vector<Held> out{{"weights", 2 * parameters / sharded(3)},
                        {"gradients", 4 * parameters / sharded(2)},
                        {"optimizer", 12 * parameters / sharded(1)}};
  if (l.stage == 3 && cut > 1) out.push_back({"gathered blocks", 2 * (2 * layer) + 4 * layer});
  out.push_back({"activations", activations(l, p, chunk_layers)});
  if (l.cp > 1) out.push_back({"exchanged by cp", exchanged(l, p)});
  if (s.teacher_forcing && s.encode_flops > 0) {
    // Pixels of the rank's part in float32: 3 colours, 4 frames and 16 x 16 pixels per patch, as for Wan
    // 2.2's tokenizer.
    const double frames =
        static_cast<double>(l.sequence == Sequence::balanced ? s.frames / l.cp + s.encode_halo : s.frames);
    out.push_back({"pixels", 4 * 3 * 4 * 1024.0 * frames * static_cast<double>(s.patches)});
  }
  out.push_back({"runtime", p.efficiency.runtime_bytes});
  return out;
}

bool lighten(Layout& l, const Problem& p) {
  for (const int64_t every : {0, 4, 2, 1}) {
    l.recompute_every = every;
    if (total(held(l, p)) <= room(p)) return true;
  }
  return false;
}

double total(const std::vector<Held>& all) {
  double out = 0;
  for (const auto& h : all) out += h.bytes;
  return out;
}

}  // namespace kinora::core::plan
