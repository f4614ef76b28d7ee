// Simulates one block of the model on one rank, and prices embedding and head.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "apps/planner/cost.hpp"
#include "apps/planner/durations.hpp"
#include "apps/planner/simulate.hpp"

namespace kinora::core::plan {

namespace {

constexpr const char *kMatrices = "matrices", *kAttention = "attention", *kElementwise = "norms and gates",
                     *kTensor = "tp", *kSequence = "cp";

// One pass through the block. A backward has two products, for input and weight; flash attention's backward
// does 2.5 times the forward's work (Dao 2023, arXiv 2307.08691, section 4); elementwise kernels move twice
// the bytes.
class Pass {
 public:
  Pass(const Layout& l, const Problem& p, bool backward)
      : l_(l), p_(p), s_(p.shape), kernels_(p), links_(p.cluster, p.efficiency), backward_(backward) {
    n_ = static_cast<double>(l.micro * s_.tokens()) / static_cast<double>(l.cp);
    D_ = static_cast<double>(s_.width), tp_ = static_cast<double>(l.tp), cp_ = static_cast<double>(l.cp);
  }

  void block() {
    for (const Branch& b : s_.branches) branch(b);
    seconds_ = sim_.run();
  }
  double seconds() const { return seconds_; }
  void add_to(std::map<std::string, double>& spent) const {
    for (const auto& [what, t] : sim_.busy(compute_)) spent[what] += t;
    for (const auto& [what, t] : sim_.idle(compute_)) spent["waits for " + what] += t;
  }

 private:
  void does(double seconds, const char* what) { last_ = sim_.add(compute_, share_ * seconds, what, last_); }
  void elementwise(double channels) { does(kernels_.memory(ways() * 2 * n_ / tp_ * channels), kElementwise); }
  double ways() const { return backward_ ? 2 : 1; }
  void product(double out, double in) { does(ways() * kernels_.product(n_, out, in), kMatrices); }
  // A collective over tp of the whole stream [n, D]. The next product needs its result, and adaptive norms
  // leave nothing to compute meanwhile (arXiv 2503.12964, section 4.5.2).
  void tensor() {
    if (l_.tp < 2) return;
    last_ =
        sim_.add(tensor_, share_ * links_.gather(2 * n_ * D_, tensor_group(l_, p_.cluster)), kTensor, last_);
  }
  // Gathers the input of a column-parallel layer, which was kept cut, for the weight's gradient; the input's
  // gradient is computed meanwhile.
  void column_product(double out, double in) {
    if (l_.tp < 2 || !backward_) return product(out, in);
    const auto again = sim_.add(tensor_, share_ * links_.gather(2 * n_ * D_, tensor_group(l_, p_.cluster)),
                                kTensor, before_);
    does(kernels_.product(n_, out, in), kMatrices);
    does(kernels_.product(n_, out, in), kMatrices);
    sim_.wait(last_, again);
  }
  // An all-to-all of [n, channels] between this many of cp's ranks.
  void exchange(int64_t ranks, double channels) {
    if (ranks < 2) return;
    const Group g = group(p_.cluster, ranks, l_.tp);
    last_ = sim_.add(sequence_, share_ * links_.all_to_all(2 * n_ * channels / tp_, g), kSequence, last_);
  }

  void local(double pairs, double width, double queries, double keys) {
    does((backward_ ? 2.5 : 1) * kernels_.attention(pairs, width, queries, keys), kAttention);
  }
  // Blocks of keys and values travel around the ring while the previous block is processed; in the backward
  // their gradients do too.
  void ring(int64_t ranks, const Group& g, double pairs, double width, double queries, double keys,
            double bytes) {
    const double step = share_ * links_.step(ways() * bytes, g), r = static_cast<double>(ranks);
    auto arrived = last_;
    for (int64_t i = 0; i < ranks; ++i) {
      const auto next = i + 1 < ranks ? sim_.add(sequence_, step, kSequence, arrived) : arrived;
      local(pairs / r, width, queries, keys / r);
      sim_.wait(last_, arrived);
      arrived = next;
    }
  }

  // Whether cp's ranks must exchange data for this attention. One of spatial and temporal attention is always
  // local: without all-to-alls tokens are cut inside frames, which leaves time whole; with the hybrid's two
  // all-to-alls a layer both are local.
  bool exchanged(Sight sight) const {
    if (l_.cp == 1) return false;
    if (sight == Sight::all) return true;
    return l_.sequence != Sequence::hybrid && sight == Sight::frame;
  }

  void attend(const Attention& a) {
    const double m = static_cast<double>(l_.micro), width = static_cast<double>(a.channels()) / tp_;
    // Keys that are not tokens, such as the text's, are few: no rank exchanges them (section 4.5.1 there).
    if (const double shared = static_cast<double>(a.shared_keys); shared > 0)
      local(n_ * shared, width, n_, shared);
    if (a.sight == Sight::none) return;
    const double keys = static_cast<double>(a.sight == Sight::frame  ? s_.patches
                                            : a.sight == Sight::time ? s_.frames
                                                                     : s_.tokens());
    const double pairs = m * s_.pairs(a.sight) / cp_;
    if (!exchanged(a.sight)) return local(pairs, width, keys, keys);
    if (l_.sequence == Sequence::ring || l_.sequence == Sequence::hybrid)
      return ring(l_.cp, sequence_group(l_, p_.cluster), m * s_.busiest_pairs(a.sight, l_.cp), width,
                  keys / cp_, keys, key_bytes(a));
    by_heads(a, l_.sequence == Sequence::two_d ? l_.ulysses : l_.cp, pairs, keys);
  }
  double key_bytes(const Attention& a) const {
    return 2 * 2 * n_ * static_cast<double>(a.kv_channels()) / tp_;
  }

  // Ulysses: u ranks exchange tokens for heads, and process u times as many tokens with 1 / u of the heads,
  // padded if u does not divide the heads; a ring connects the other ranks.
  void by_heads(const Attention& a, int64_t u, double pairs, double keys) {
    const int64_t others = l_.cp / u, heads_here = a.heads / l_.tp, each = (heads_here + u - 1) / u;
    const double width = static_cast<double>(each * a.head_size), seen = pairs * static_cast<double>(u);
    const double Q = static_cast<double>(a.channels()), K = static_cast<double>(a.kv_channels());
    // A key or value head is on every rank that has one of its queries.
    const double replicas = std::max(1.0, static_cast<double>(u * l_.tp) / static_cast<double>(a.kv_heads));
    exchange(u, Q + 2 * K * replicas);
    if (others == 1)
      local(seen, width, keys, keys);
    else
      ring(others, group(p_.cluster, others, l_.tp * u), seen, width, keys / static_cast<double>(others),
           keys, key_bytes(a));
    exchange(u, Q);
  }

  // Runs the steps in this order in the forward, in reverse in the backward.
  void in_order(std::initializer_list<std::function<void()>> steps) {
    before_ = last_;
    if (backward_)
      for (auto it = std::rbegin(steps); it != std::rend(steps); ++it) (*it)();
    else
      for (const auto& step : steps) step();
  }

  void branch(const Branch& b) {
    share_ = b.share;
    const double columns = static_cast<double>(b.columns), inner = static_cast<double>(b.inner);
    const bool local_sight =
        !b.attentions.empty() && b.attentions[0].sight != Sight::all && b.attentions[0].sight != Sight::none;
    in_order({[&] {
                if (l_.sequence == Sequence::hybrid && local_sight) exchange(l_.cp, D_);
              },
              [&] { elementwise(2 * D_); },  // norm and modulation
              [&] { tensor(); },
              [&] {
                if (columns > 0) column_product(columns / tp_, static_cast<double>(b.in));
              },
              [&] {
                if (b.normed() > 0) elementwise(2 * static_cast<double>(b.normed()));  // QK norm and RoPE
              },
              [&] { shared(b); },
              [&] {
                for (const Attention& a : b.attentions) attend(a);
              },
              [&] { elementwise(columns + inner); },  // reads and writes of attention or activation
              [&] {
                if (inner > 0) product(static_cast<double>(b.out), inner / tp_);
              },
              [&] { tensor(); }, [&] { elementwise(3 * D_); }});  // gate and residual
  }

  void shared(const Branch& b) {
    for (const SharedLinear& l : b.shared)
      does(ways() * kernels_.product(static_cast<double>(l_.micro * l.rows), static_cast<double>(l.out) / tp_,
                                     static_cast<double>(l.in)),
           kMatrices);
  }

  const Layout& l_;
  const Problem& p_;
  const Shape& s_;
  Kernels kernels_;
  Links links_;
  bool backward_;
  double n_, D_, tp_, cp_, seconds_ = 0;
  double share_ = 1;  // of the layers that have the branch
  Simulation sim_;
  int compute_ = sim_.stream(), tensor_ = sim_.stream(), sequence_ = sim_.stream();
  Simulation::Task last_ = Simulation::kNone;    // latest task on the path to the block's result
  Simulation::Task before_ = Simulation::kNone;  // the task before this part of the block
};

}  // namespace

BlockTime block_time(const Layout& l, const Problem& p) {
  BlockTime out;
  Pass forward(l, p, false), backward(l, p, true);
  forward.block(), backward.block();
  out.forward = forward.seconds(), out.backward = backward.seconds();
  forward.add_to(out.spent), backward.add_to(out.spent);
  return out;
}

double outer_time(const Layout& l, const Problem& p) {
  const double n = static_cast<double>(l.micro * p.shape.tokens()) / static_cast<double>(l.cp * l.tp);
  const double width = static_cast<double>(p.shape.width);
  return Kernels(p).product(n, width, p.shape.ends / width);
}

}  // namespace kinora::core::plan
