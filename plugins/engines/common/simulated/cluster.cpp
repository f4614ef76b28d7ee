#include "plugins/engines/common/simulated/cluster.hpp"

#include <queue>

#include "kinora/error.hpp"
#include "plugins/engines/common/simulated/random.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr double kDay = 86400, kNever = std::numeric_limits<double>::infinity();
// Seconds: a range's work at least, unless the job is short; and how much of a long job is simulated.
constexpr double kRange = 3600, kMost = 10 * kDay;
constexpr double kChains = 10;       // a range takes this many times as long as one sample from stage to stage
constexpr double kCalls = 20000;     // of stages in a simulated range, at most; a longer one goes on alike
constexpr uint64_t kRunsOfNode = 3;  // simulated ranges of each kind of node

double calls_of(const std::vector<Stage>& stages) {
  std::vector<balance::Stage> unit;
  for (const Stage& s : stages) unit.push_back(s.cost), unit.back().seconds = 1;
  double out = 0;
  for (const double calls : balance::work_of(unit)) out += calls;
  return out;
}

// The ranges of one kind of node.
struct Pace {
  int64_t inputs = 1;
  std::vector<double> seconds;  // of whole ranges, as simulated
};

// wanted: seconds of a range. What is measured is the share of the bound, so that chance in the drawn costs does not
// make a node faster than they allow.
Pace pace_of(const Job& job, const Kind& kind, double wanted, uint64_t seed) {
  const double most = most_per_second(job.stages, {kind.node});
  if (!(most > 0) || !std::isfinite(most))
    throw Error(KINORA_ERROR_INVALID, "the stages' costs are zero, or one of them fits on no node");
  Pace out;
  out.inputs = std::max<int64_t>(1, std::llround(std::min(most * wanted, 1e15)));
  const double calls = std::max(1.0, kCalls / calls_of(job.stages));
  const auto simulated = static_cast<int64_t>(std::min(static_cast<double>(out.inputs), calls));
  for (uint64_t i = 0; i < kRunsOfNode; ++i) {
    const NodeRun run = run_node(job.stages, kind.node, simulated, mixed(seed + i));
    const double least = static_cast<double>(out.inputs) / most;
    double seconds = run.least > 0 ? least * run.seconds / run.least : least;
    if (kind.network > 0)
      seconds = std::max(seconds, static_cast<double>(out.inputs) * job.bytes / kind.network);
    out.seconds.push_back(seconds);
  }
  return out;
}

class Cluster {
 public:
  Cluster(const Job& job, const std::vector<Kind>& kinds, std::vector<Pace> paces, const Surroundings& around,
          uint64_t seed)
      : job_(job), paces_(std::move(paces)), around_(around), random_(seed), left_(job.inputs) {
    for (size_t kind = 0; kind < kinds.size(); ++kind) members_.insert(members_.end(), kinds[kind].count, {kind});
  }
  ClusterRun run();

 private:
  struct Member {
    size_t kind;
    bool up = true, draining = false;
    uint64_t turn = 0;   // of its present range: an end of another one does not count
    int64_t inputs = 0;  // of that range; 0: it has none
    double demand = 0;   // bytes per second
  };
  struct Event {
    enum What { fail, drain, back, found } what;
    double at;
    size_t node = 0;
    int64_t inputs = 0;
    bool operator>(const Event& o) const { return at > o.at; }
  };
  struct End {
    double at;  // of the progress
    size_t node;
    uint64_t turn;
    bool operator>(const End& o) const { return at > o.at; }
  };
  template <class T>
  using Queue = std::priority_queue<T, std::vector<T>, std::greater<>>;

  double draw() { return uniform(random_++); }
  // The store gives all nodes the same share of what they ask for.
  double speed() const { return around_.store > 0 && demand_ > around_.store ? around_.store / demand_ : 1; }
  void give(size_t node);
  void give_all();
  int64_t take_back(Member& member);
  void finish(const End& end);
  void happen(const Event& event);
  void expect(Event::What what, double share);
  void leave(size_t node);

  const Job& job_;
  const std::vector<Pace> paces_;
  const Surroundings around_;
  uint64_t random_;
  std::vector<Member> members_;
  Queue<Event> events_;
  Queue<End> ends_;
  double now_ = 0, progress_ = 0;  // seconds; seconds of work of every node that has a range
  double demand_ = 0;
  int64_t left_, done_ = 0;
  ClusterRun out_;
};

void Cluster::give(size_t node) {
  Member& member = members_[node];
  if (!member.up || member.draining || member.inputs > 0 || left_ == 0) return;
  const Pace& pace = paces_[member.kind];
  member.inputs = std::min(left_, pace.inputs);
  left_ -= member.inputs;
  const auto which = static_cast<size_t>(draw() * static_cast<double>(pace.seconds.size()));
  const auto inputs = static_cast<double>(member.inputs);
  const double seconds = pace.seconds[which] * inputs / static_cast<double>(pace.inputs);
  member.demand = inputs * job_.bytes / seconds;
  demand_ += member.demand;
  ends_.push({progress_ + seconds, node, ++member.turn});
}

void Cluster::give_all() {
  for (size_t node = 0; node < members_.size(); ++node) give(node);
}

// The node has no range any more. Returns its inputs.
int64_t Cluster::take_back(Member& member) {
  ++member.turn;
  demand_ = std::max(0.0, demand_ - std::exchange(member.demand, 0.0));
  return std::exchange(member.inputs, 0);
}

void Cluster::finish(const End& end) {
  Member& member = members_[end.node];
  if (member.turn != end.turn) return;
  done_ += take_back(member);
  ++out_.ranges;
  if (std::exchange(member.draining, false)) return leave(end.node);
  give(end.node);
}

void Cluster::leave(size_t node) {
  members_[node].up = false;
  events_.push({Event::back, now_ + around_.away, node});
}

// The next failure or drain: of a node that is drawn when it comes, and none if that is away already.
void Cluster::expect(Event::What what, double share) {
  if (share <= 0) return;
  const double rate = share * static_cast<double>(members_.size()) / kDay;
  events_.push({what, now_ - std::log(draw()) / rate});
}

void Cluster::happen(const Event& event) {
  const auto any = static_cast<size_t>(draw() * static_cast<double>(members_.size()));
  Member& member = members_[event.what == Event::back ? event.node : any];
  switch (event.what) {
    case Event::found:
      left_ += event.inputs;
      return give_all();
    case Event::back:
      member.up = true;
      return give(event.node);
    case Event::fail:
      expect(Event::fail, around_.failures);
      if (!member.up) return;
      ++out_.failed;
      member.draining = false;
      if (const int64_t lost = take_back(member); lost > 0) {
        out_.redone += lost;
        events_.push({Event::found, now_ + around_.takeover, 0, lost});
      }
      return leave(any);
    case Event::drain:
      expect(Event::drain, around_.drains);
      if (!member.up || member.draining) return;
      ++out_.drained;
      member.draining = member.inputs > 0;
      if (!member.draining) leave(any);
  }
}

ClusterRun Cluster::run() {
  expect(Event::fail, around_.failures);
  expect(Event::drain, around_.drains);
  give_all();
  while (done_ < job_.inputs) {
    const double end_at = ends_.empty() ? kNever : now_ + (ends_.top().at - progress_) / speed();
    const double event_at = events_.empty() ? kNever : events_.top().at;
    if (end_at == kNever && event_at == kNever)
      throw Error(KINORA_ERROR_FAILED, "the simulated job does not end; please report this as a bug");
    if (end_at <= event_at) {
      const End next = ends_.top();
      ends_.pop();
      now_ = end_at, progress_ = next.at;
      finish(next);
    } else {
      const Event next = events_.top();
      events_.pop();
      progress_ += (event_at - now_) * speed(), now_ = event_at;
      happen(next);
    }
  }
  out_.seconds = out_.simulated = now_;
  return out_;
}

// The resource that the stages' work exhausts first, and the stage that uses most of it.
Bound limit_of(const Job& job, const std::vector<Kind>& kinds) {
  static constexpr const char* kNames[balance::kResources] = {"cpus", "memory", "gpus", "nvdec", "nvenc"};
  std::vector<balance::Stage> costs;
  double nodes = 0;
  for (const Stage& s : job.stages) costs.push_back(s.cost);
  for (const Kind& kind : kinds) nodes += static_cast<double>(kind.count);
  const std::vector<double> work = balance::work_of(costs);
  Bound out{kNever, "", ""};
  for (size_t r = 0; r < balance::kResources; ++r) {
    double has = 0, all = 0, largest = 0;
    size_t most = 0;
    for (const Kind& kind : kinds) has += static_cast<double>(kind.count) * balance::of(kind.node, r);
    for (size_t i = 0; i < work.size(); ++i) {
      const double share = work[i] * balance::of(costs[i].need, r);
      all += share;
      if (share > largest) largest = share, most = i;
    }
    if (all > 0 && has / all < out.per_second) out = {has / all, kNames[r], job.stages[most].name};
  }
  for (size_t i = 0; i < work.size(); ++i) {
    const auto workers = static_cast<double>(job.stages[i].ordered ? 1 : costs[i].workers);
    if (workers > 0 && work[i] > 0 && nodes * workers / work[i] < out.per_second)
      out = {nodes * workers / work[i], "workers", job.stages[i].name};
  }
  return out;
}

}  // namespace

Bound bound_of(const Job& job, const std::vector<Kind>& kinds, const Surroundings& around) {
  std::vector<balance::Node> nodes;
  double network = 0;
  for (const Kind& kind : kinds) {
    nodes.insert(nodes.end(), static_cast<size_t>(kind.count), kind.node);
    network += kind.network > 0 ? kind.network * static_cast<double>(kind.count) : kNever;
  }
  Bound out = limit_of(job, kinds);
  out.per_second = most_per_second(job.stages, nodes);
  if (job.bytes > 0 && network / job.bytes < out.per_second) out = {network / job.bytes, "network", ""};
  if (job.bytes > 0 && around.store > 0 && around.store / job.bytes < out.per_second)
    out = {around.store / job.bytes, "store", ""};
  return out;
}

ClusterRun run_cluster(const Job& job, const std::vector<Kind>& kinds, const Surroundings& around, uint64_t seed) {
  const double least = static_cast<double>(job.inputs) / bound_of(job, kinds, around).per_second;
  double chain = 0;
  for (const Stage& s : job.stages) chain += s.cost.seconds;
  const double range = std::min(std::max(kRange, kChains * chain), std::max(60.0, least / 10));
  std::vector<Pace> paces;
  for (const Kind& kind : kinds) paces.push_back(pace_of(job, kind, range, mixed(seed + paces.size())));
  Job part = job;
  part.inputs = static_cast<int64_t>(std::min(static_cast<double>(job.inputs),
                                              std::ceil(static_cast<double>(job.inputs) * kMost / least)));
  ClusterRun out = Cluster(part, kinds, std::move(paces), around, mixed(~seed)).run();
  const double whole = static_cast<double>(job.inputs) / static_cast<double>(part.inputs);
  const auto times = [&](int64_t n) { return static_cast<int64_t>(std::llround(static_cast<double>(n) * whole)); };
  out.seconds *= whole;
  out.ranges = times(out.ranges), out.redone = times(out.redone);
  out.failed = times(out.failed), out.drained = times(out.drained);
  return out;
}

}  // namespace kinora::engines::simulated
