#include "plugins/engines/common/simulated/cluster.hpp"

#include <queue>

#include "kinora/error.hpp"
#include "plugins/engines/common/simulated/random.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr double kDay = 86400, kNever = std::numeric_limits<double>::infinity();
// Seconds: the work of a range, unless the job is short; how much of a range and of a long job is simulated. The rest
// goes on alike.
constexpr double kRange = 4 * 3600, kWindow = 1200, kMost = 10 * kDay;
constexpr double kChains = 5;  // what is simulated takes this many times as long as one sample of each stage
constexpr double kCalls = 20000;     // of stages in what is simulated, at most
constexpr uint64_t kRunsOfNode = 2;  // of each kind
constexpr double kTogether = 4;      // nodes that are simulated with one scheduler
constexpr double kTooLong = 20;      // of the bound
// Of one input: calls, and seconds of one sample of each stage and of the starts.
constexpr double kMostCalls = 1e6, kMostChain = 1e6;

double calls_of(const std::vector<Stage>& stages) {
  std::vector<balance::Stage> unit;
  for (const Stage& s : stages) unit.push_back(s.cost), unit.back().seconds = 1;
  double out = 0;
  for (const double calls : balance::work_of(unit)) out += calls;
  return out;
}

double chain_of(const std::vector<Stage>& stages) {
  double out = 0;
  for (const Stage& s : stages) out += s.cost.seconds + s.starting;
  return out;
}

// Of a kind of node: a range of n inputs takes start + n * each seconds.
struct Pace {
  int64_t inputs = 1;  // of a range
  double network = 0;
  struct Line {
    double start = 0, each = 0;
  };
  std::vector<Line> lines;  // as often as it was simulated
};

// Of the run its share of the bound for the work that was drawn is taken, not its seconds: these have a chance that
// many nodes do not have. most: inputs per second.
Pace::Line line_of(const NodeRun& run, int64_t n, double most) {
  const double least = static_cast<double>(n) / most, whole = run.least > 0 ? run.seconds / run.least : 1;
  Pace::Line out;
  out.each = (run.steady > 0 ? 1 / run.steady : whole) / most;
  out.start = std::max(0.0, whole * least - static_cast<double>(n) * out.each);
  return out;
}

// The inputs that are simulated of so many, of which no schedule does more than `most` a second. Throws Error.
int64_t simulated_inputs(const Job& job, double inputs, double most) {
  if (!(most > 0) || !std::isfinite(most))
    throw Error(KINORA_ERROR_INVALID, "the stages' costs are zero, or one of them fits on no node");
  if (!(calls_of(job.stages) <= kMostCalls) || !(chain_of(job.stages) <= kMostChain))
    throw Error(KINORA_ERROR_INVALID, "one input takes more than a million calls of stages, or of seconds");
  const double window = most * std::max(kWindow, kChains * chain_of(job.stages));
  return std::max<int64_t>(1, std::llround(std::min({inputs, window, kCalls / calls_of(job.stages)})));
}

// wanted: seconds of a range.
Pace pace_of(const Job& job, const Kind& kind, double wanted, uint64_t seed) {
  const double most = most_per_second(job.stages, {kind.node});
  const double range = std::min(most * wanted, 1e15);
  const int64_t n = simulated_inputs(job, std::max(1.0, range), most);
  Pace out;
  out.network = kind.network;
  out.inputs = std::max<int64_t>(1, std::llround(range));
  for (uint64_t i = 0; i < kRunsOfNode; ++i)
    out.lines.push_back(line_of(run_node(job.stages, kind.node, n, mixed(seed + i)), n, most));
  return out;
}

class Cluster {
 public:
  // least: seconds that the job takes at the bound.
  Cluster(const Job& job, const std::vector<Kind>& kinds, std::vector<Pace> paces, const Surroundings& around,
          double least, uint64_t seed)
      : job_(job),
        paces_(std::move(paces)),
        around_(around),
        least_(least),
        random_(seed),
        left_(job.inputs) {
    for (size_t kind = 0; kind < kinds.size(); ++kind)
      members_.insert(members_.end(), static_cast<size_t>(kinds[kind].count), Member{kind});
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
  const double least_;
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
  const Pace::Line& line = pace.lines[static_cast<size_t>(draw() * static_cast<double>(pace.lines.size()))];
  const auto inputs = static_cast<double>(member.inputs);
  double seconds = line.start + inputs * line.each;
  if (pace.network > 0) seconds = std::max(seconds, inputs * job_.bytes / pace.network);
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
    if (now_ > kTooLong * least_ + kDay)
      throw Error(KINORA_ERROR_INVALID, "nodes fail or leave so often that the job takes more than " +
                                            std::to_string(static_cast<int>(kTooLong)) + " times as long");
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

ClusterRun run_cluster(const Job& job, const std::vector<Kind>& kinds, const Surroundings& around,
                       uint64_t seed) {
  const auto inputs = static_cast<double>(job.inputs);
  const double least = inputs / bound_of(job, kinds, around).per_second;
  const double range =
      std::min(std::max(kRange, 2 * kChains * chain_of(job.stages)), std::max(60.0, least / 20));
  std::vector<Pace> paces;
  for (const Kind& kind : kinds) paces.push_back(pace_of(job, kind, range, mixed(seed + paces.size())));
  Job part = job;
  if (least > kMost) part.inputs = std::llround(std::ceil(inputs * kMost / least));
  const double times = inputs / static_cast<double>(part.inputs);
  ClusterRun out = Cluster(part, kinds, std::move(paces), around, least / times, mixed(~seed)).run();
  out.seconds *= times;
  for (int64_t* count : {&out.ranges, &out.failed, &out.drained, &out.redone})
    *count = std::llround(static_cast<double>(*count) * times);
  return out;
}

TogetherRun run_together(const Job& job, const std::vector<Kind>& kinds, uint64_t seed) {
  std::vector<balance::Node> all, some;
  for (const Kind& kind : kinds) all.insert(all.end(), static_cast<size_t>(kind.count), kind.node);
  const double part = std::min(1.0, kTogether / static_cast<double>(all.size()));
  for (const Kind& kind : kinds)
    some.insert(some.end(), std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(kind.count))),
                kind.node);
  const int64_t n = simulated_inputs(job, static_cast<double>(job.inputs), most_together(job.stages, some));
  const NodeRun run = run_nodes(job.stages, some, {}, n, mixed(seed));
  TogetherRun out;
  out.of_bound = run.steady > 0 ? run.steady : run.least / run.seconds;
  out.per_second = out.of_bound * most_together(job.stages, all);
  return out;
}

}  // namespace kinora::engines::simulated
