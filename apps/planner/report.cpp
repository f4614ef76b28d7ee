// Plans as text and as JSON.
#include <algorithm>
#include <cmath>

#include "apps/planner/durations.hpp"
#include "apps/planner/search.hpp"
#include "core/base/quantity.hpp"

namespace kinora::core::plan {
namespace {

using nlohmann::json;

std::string size_of(double bytes) { return format_size(static_cast<uint64_t>(bytes)); }

std::string seconds_of(double s) {
  return s >= 1      ? fmt::format("{:.2f} s", s)
         : s >= 1e-3 ? fmt::format("{:.1f} ms", s * 1e3)
                     : fmt::format("{:.0f} us", s * 1e6);
}

// "attention 71 %, matrices 26 %", largest first; shares below 1 % are left out.
template <class Parts>
std::string shares(const Parts& parts, double whole) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [what, amount] : parts) sorted.emplace_back(amount / whole, what);
  std::sort(sorted.rbegin(), sorted.rend());
  std::string out;
  for (const auto& [share, what] : sorted)
    if (share >= 0.01) out += fmt::format("{}{} {:.0f} %", out.empty() ? "" : ", ", what, 100 * share);
  return out;
}

std::string row(const Plan& plan) {
  return fmt::format("{:>9}  {:>5.1f} %  {:>8.0f}  {:>9}  {}\n", seconds_of(plan.step.seconds),
                     100 * plan.step.mfu, plan.step.tokens_per_gpu, size_of(total(plan.memory)),
                     plan.layout.text());
}

// "28.00 B", "1.30 M"
std::string count_of(double n) {
  return n >= 1e9 ? fmt::format("{:.2f} B", n / 1e9) : fmt::format("{:.2f} M", n / 1e6);
}

// "+3.1 %"; a difference that rounds to zero has no sign.
std::string percent(double share) {
  const double tenths = std::round(1000 * share);
  return fmt::format("{:+.1f} %", tenths == 0 ? 0.0 : tenths / 10);
}

constexpr const char* kColumns = "     step      MFU  tok/s/GPU     memory  layout\n";

std::string costs(const Plan& plan) {
  std::string out = "  time    " + shares(plan.step.spent, plan.step.seconds) + "\n  memory  ";
  for (const auto& h : plan.memory)
    if (h.bytes >= 0.01 * total(plan.memory)) out += fmt::format("{} {}, ", h.name, size_of(h.bytes));
  out.resize(out.size() - 2);
  return out + "\n";
}

// The rule of thumb behind the size of each axis.
std::string reasons(const Plan& plan, const Problem& p) {
  const Layout& l = plan.layout;
  const Shape& s = p.shape;
  std::string out;
  const auto say = [&](const std::string& line) { out += "  " + line + "\n"; };
  const auto waits = [&](const char* what) {
    const auto it = plan.step.spent.find(std::string("waits for ") + what);
    return it == plan.step.spent.end() ? 0.0 : 100 * it->second / plan.step.seconds;
  };
  if (l.tp > 1)
    say(
        fmt::format("tp={}: 1/{} of every layer's weights and activations a GPU; {:.1f} % of the step waits "
                    "for the node's links",
                    l.tp, l.tp, waits("tp")));
  if (l.cp > 1)
    say(fmt::format(
        "cp={}: {} of {} tokens a rank; {:.1f} % of the step waits for {}", l.cp, s.tokens() / l.cp,
        s.tokens(), waits("cp"),
        sequence_group(l, p.cluster).crosses() ? "the network between nodes" : "the node's links"));
  if (l.pp > 1)
    say(fmt::format("pp={}: {} of {} layers a GPU; {:.1f} % of the step is the bubble and messages, at {}",
                    l.pp, (s.layers + l.pp - 1) / l.pp, s.layers, waits("pp"),
                    counted(l.accumulate(p.batch), "microbatch", "microbatches")));
  if (l.fsdp > 1)
    say(fmt::format("fsdp={}: 1/{} of {} a rank; {:.1f} % of the step waits for it", l.fsdp, l.shards(),
                    l.stage == 3   ? "weights, gradients and optimizer"
                    : l.stage == 2 ? "gradients and optimizer"
                                   : "the optimizer",
                    waits("fsdp")));
  if (l.recompute_every) say("recompute: activations would not fit otherwise");
  for (const auto& what : vanities(l, p)) say("useless: " + what);
  if (l.cp > 1 && (l.sequence == Sequence::ulysses || l.sequence == Sequence::balanced) &&
      (s.heads() / l.tp) % l.cp)
    say(fmt::format("{}: {} heads are padded to {}", name_of(l.sequence), s.heads() / l.tp,
                    (s.heads() / l.tp + l.cp - 1) / l.cp * l.cp));
  return out;
}

std::string instead(const Found& found) {
  std::string out;
  for (const auto& i : found.instead) {
    if (i.layout)
      out += fmt::format("  {}: {} time, {}\n", i.what, percent(i.slower), i.layout->text());
    else if (i.needs > 0)
      out += fmt::format("  {}: does not fit, {} at least\n", i.what, size_of(i.needs));
    else
      out += fmt::format("  {}: not legal here\n", i.what);
  }
  return out;
}

std::string to_write(const Plan& plan, const Problem& p) {
  return fmt::format("\nin the train job\n  {}\n  accumulate = {}\n", plan.layout.toml(),
                     plan.layout.accumulate(p.batch));
}

}  // namespace

std::string heading(const Problem& p) {
  const Gpu& g = p.cluster.gpu;
  return fmt::format(
      "{}: {} parameters, {} tokens a sample ({} frames of {}), {} samples a step\n"
      "{}: {} of {:.4g} TFLOP/s, {} and {:.3g} GB/s in a node, {:.3g} GB/s between nodes\n{}\n",
      p.shape.model, count_of(p.shape.parameters()), p.shape.tokens(), p.shape.frames, p.shape.patches,
      p.batch, p.cluster.text(), core::counted(p.cluster.size(), "GPU", "GPUs"), g.peak / 1e12,
      size_of(g.memory), g.link / 1e9, g.network / 1e9,
      p.precision.empty() || p.precision == "bf16"
          ? ""
          : fmt::format("times and memory are those of bf16, and the job's precision is {}\n", p.precision));
}

std::string text_of(const Plan& plan, const Problem& p) {
  std::string out = kColumns + row(plan) + "\n" + costs(plan) + reasons(plan, p);
  if (total(plan.memory) <= room(p)) return out;
  out += fmt::format("  does not fit: {} of {}", size_of(total(plan.memory)), size_of(room(p)));
  Layout lighter = plan.layout;
  const bool fits = lighten(lighter, p);
  out += fmt::format("; with recompute={} {}", lighter.recompute_every, size_of(total(held(lighter, p))));
  out += fits ? ", which does\n" : ", still too much\n";
  return out;
}

std::string text_of(const Found& found, const Problem& p) {
  std::string out = kColumns;
  for (const auto& plan : found.best) out += row(plan);
  const Plan& best = found.best.front();
  const std::string fit = found.fit == found.legal ? "all" : std::to_string(found.fit);
  return out +
         fmt::format("\nwhy the first of {}, {} of which fit\n",
                     counted(found.legal, "legal layout", "legal layouts"), fit) +
         costs(best) + reasons(best, p) + instead(found) + to_write(best, p);
}

std::string text_of(const Fewer& fewer) {
  return fmt::format("\nfewer GPUs are as fast: --cluster {}, {} a step with {}\n", fewer.cluster.text(),
                     seconds_of(fewer.plan.step.seconds), fewer.plan.layout.text());
}

json json_of(const Plan& plan, const Problem& p) {
  const Layout& l = plan.layout;
  json memory = json::object(), spent = json::object();
  for (const auto& h : plan.memory) memory[h.name] = h.bytes;
  for (const auto& [what, t] : plan.step.spent) spent[what] = t;
  return {{"layout", l.words()},
          {"pp", l.pp},
          {"dp", l.dp},
          {"fsdp", l.fsdp},
          {"cp", l.cp},
          {"tp", l.tp},
          {"accumulate", l.accumulate(p.batch)},
          {"toml", l.toml()},
          {"seconds", plan.step.seconds},
          {"mfu", plan.step.mfu},
          {"tokens_per_gpu", plan.step.tokens_per_gpu},
          {"bytes", total(plan.memory)},
          {"fits", total(plan.memory) <= room(p)},
          {"memory", memory},
          {"time", spent},
          {"in_vain", vanities(l, p)}};
}

json json_of(const Fewer& fewer) {
  return {{"cluster", fewer.cluster.text()},
          {"gpus", fewer.cluster.size()},
          {"layout", fewer.plan.layout.words()},
          {"seconds", fewer.plan.step.seconds}};
}

json json_of(const Found& found, const Problem& p) {
  json out = {{"cluster", p.cluster.text()}, {"gpus", p.cluster.size()}, {"parameters", p.shape.parameters()},
              {"tokens", p.shape.tokens()},  {"batch", p.batch},         {"flops", p.shape.step_flops()},
              {"legal", found.legal},        {"fit", found.fit},         {"plans", json::array()},
              {"instead", json::array()}};
  if (!p.precision.empty()) out["precision"] = p.precision;
  for (const auto& plan : found.best) out["plans"].push_back(json_of(plan, p));
  for (const auto& i : found.instead) {
    json line = {{"what", i.what}};
    if (i.layout) line["layout"] = i.layout->words(), line["slower"] = i.slower;
    if (!i.layout && i.needs > 0) line["needs"] = i.needs;
    out["instead"].push_back(line);
  }
  return out;
}

}  // namespace kinora::core::plan
