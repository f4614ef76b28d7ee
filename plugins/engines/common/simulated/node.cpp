#include "plugins/engines/common/simulated/node.hpp"

#include <map>
#include <set>

#include "plugins/engines/common/balance/bound.hpp"
#include "plugins/engines/common/simulated/random.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr double kFull = 0.25;  // of the run, so that NodeRun::steady means something
constexpr int kIdle = 1000;     // successive waits in which nothing happens: the run would never end

class VirtualNodes;

// It reads, then works for the seconds that were drawn for the sample, and emits evenly over them.
class Worker final : public Instance {
 public:
  Worker(VirtualNodes& nodes, size_t stage, size_t at) : nodes_(nodes), stage_(stage), at_(at) {}
  void send(Task& task) override;
  bool is_apart() const override;
  bool ended() const override { return ended_; }
  bool lost() const override { return ended_; }

 private:
  void end(Task& task);
  void work(Task& task, int64_t next, int64_t n, double each);
  void emit(Task& task, int64_t next, int64_t n, double each);
  void go_on(Task& task, int64_t next, int64_t n, double each);

  VirtualNodes& nodes_;
  const size_t stage_, at_;
  bool ended_ = false;  // with its node
};

Tokens tokens_of(const balance::Node& node) {
  return {node.cores, static_cast<double>(node.gpus), static_cast<uint64_t>(node.memory), node.nvdec,
          node.nvenc};
}

class VirtualNodes final : public Executor {
 public:
  VirtualNodes(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes,
               const std::vector<Change>& changes, int64_t inputs, uint64_t seed, double store)
      : stages_(stages),
        nodes_(nodes),
        changes_(changes),
        inputs_(inputs),
        seed_(seed),
        rate_(store),
        work_(stages.size()) {
    out_.starts.resize(stages.size());
    for (const Stage& s : stages)
      specs_.push_back({sizeof(kinora_stage_spec), static_cast<uint32_t>(s.cost.from.size()), s.name.c_str(),
                        "stage/simulated", "{}", s.cost.from.data(), nullptr, nullptr, s.cost.workers});
  }
  NodeRun run();

  void at(double seconds, std::function<void()> work) {
    events_.emplace(after(now_, seconds), std::move(work));
  }
  uint64_t draw(size_t stage, std::string_view key) const { return seed_of(key, seed_ + stage); }
  double seconds_of(size_t stage, uint64_t draw) const {
    return log_normal(stages_[stage].cost.seconds, stages_[stage].deviation, draw);
  }
  // Work of a stage that began now; that ended now, or with its node. from: when it began; done: seconds of it.
  double begin(size_t stage);
  void end(size_t stage, double from, double done);
  // Seconds until the store has given a call of the stage what it reads.
  double read(size_t stage);
  int64_t emissions(size_t stage, uint64_t draw) const;
  bool has_lost(size_t node) const { return lost_.contains(node); }
  bool has_left(size_t node) const { return left_.contains(node); }
  bool may_lose() const { return !changes_.empty(); }

  FirstInstance first(const kinora_stage_spec& spec) override;
  void start(const StageState& stage, const Slot& slot, Started started) override;
  void post(std::function<void()> work, bool) override { at(0, std::move(work)); }
  void wait(double seconds) override;
  void wake() override { awake_ = true; }

 private:
  void happen() { events_.extract(events_.begin()).mapped()(); }
  void change(Runner& runner, const Change& change);
  void ended(const kinora_outcome& outcome);
  void run_to_end(const kinora_pipeline& pipeline);
  int32_t next(kinora_sample** out);
  // Seconds of work of each stage until now, and bytes that the store gave.
  struct Done {
    std::vector<double> seconds;
    double bytes = 0;
  };
  Done done() const;
  double least(const Done& done) const;
  double seconds() const { return seconds_between(Time{}, now_); }

  const std::vector<Stage>& stages_;
  const std::vector<balance::Node>& nodes_;
  const std::vector<Change>& changes_;
  const int64_t inputs_;
  const uint64_t seed_;
  const double rate_;  // of the store
  // Of a stage: seconds of work that has ended; work that has not, and the sum of the seconds at which it began.
  struct Work {
    double ended = 0, begun = 0;
    int64_t running = 0;
  };
  std::vector<Work> work_;
  double asked_ = 0, given_at_ = 0;  // bytes of the store; seconds at which it will have given them
  Done full_from_, full_to_;         // of NodeRun::steady
  std::vector<kinora_stage_spec> specs_;
  std::set<size_t> left_, lost_;  // lost ones have left
  NodeRun out_;
  Time now_{};
  double third_ = 0, full_ = 0;
  std::multimap<Time, std::function<void()>> events_;  // of one time: in the order of their arrival
  bool awake_ = false;
  int idle_ = 0;
  int64_t given_ = 0;
};

void Worker::send(Task& task) {
  if (nodes_.has_left(at_)) return end(task);
  const uint64_t draw = nodes_.draw(stage_, task.key);
  const int64_t n = nodes_.emissions(stage_, draw);
  const double each = nodes_.seconds_of(stage_, draw) / static_cast<double>(std::max<int64_t>(1, n));
  const double reading = nodes_.read(stage_);
  if (reading <= 0) return work(task, 0, n, each);
  nodes_.at(reading, [this, &task, n, each] { nodes_.has_lost(at_) ? end(task) : work(task, 0, n, each); });
}

void Worker::work(Task& task, int64_t next, int64_t n, double each) {
  nodes_.at(each, [this, &task, next, n, each, from = nodes_.begin(stage_)] {
    const bool lost = nodes_.has_lost(at_);
    nodes_.end(stage_, from, lost ? 0 : each);
    lost ? end(task) : emit(task, next, n, each);
  });
}

bool Worker::is_apart() const { return nodes_.may_lose(); }

void Worker::end(Task& task) {
  ended_ = true;
  task.done(KINORA_ERROR_FAILED, "ended with its node");
}

void Worker::emit(Task& task, int64_t next, int64_t n, double each) {
  if (next < n) {
    task.room = [this, &task, next, n, each](bool granted) {
      nodes_.at(0, [this, &task, next, n, each, granted] {
        granted ? go_on(task, next + 1, n, each) : task.done(KINORA_ERROR_CANCELLED, "cancelled");
      });
    };
    try {
      Sample sample = n == 1 ? task.in->sample : Sample(task.key + "-" + std::to_string(next));
      if (!task.emit(std::move(sample))) return;
    } catch (const Error& e) {
      return task.done(e.code(), e.what());
    }
  }
  go_on(task, next + 1, n, each);
}

void Worker::go_on(Task& task, int64_t next, int64_t n, double each) {
  if (next >= n) return task.done(KINORA_OK, "");
  work(task, next, n, each);
}

double VirtualNodes::begin(size_t stage) {
  ++work_[stage].running;
  work_[stage].begun += seconds();
  return seconds();
}

void VirtualNodes::end(size_t stage, double from, double done) {
  Work& work = work_[stage];
  --work.running;
  work.begun -= from;
  work.ended += done;
}

double VirtualNodes::read(size_t stage) {
  const double bytes = stages_[stage].bytes;
  if (rate_ <= 0 || bytes <= 0) return 0;
  asked_ += bytes;
  given_at_ = std::max(given_at_, seconds()) + bytes / rate_;
  return given_at_ - seconds();
}

VirtualNodes::Done VirtualNodes::done() const {
  Done out;
  for (const Work& work : work_)
    out.seconds.push_back(work.ended + static_cast<double>(work.running) * seconds() - work.begun);
  out.bytes = asked_ - rate_ * std::max(0.0, given_at_ - seconds());
  return out;
}

int64_t VirtualNodes::emissions(size_t stage, uint64_t draw) const {
  const double out = stages_[stage].cost.out, whole = std::floor(out);
  return static_cast<int64_t>(whole) + (uniform(draw + 1) < out - whole ? 1 : 0);
}

FirstInstance VirtualNodes::first(const kinora_stage_spec& spec) {
  const auto at = static_cast<size_t>(&spec - specs_.data());
  const balance::Need& need = stages_[at].cost.need;
  FirstInstance out{};
  out.needs = {sizeof(kinora_resources),
               stages_[at].ordered ? 1u : 0u,
               need.cores,
               need.gpus,
               static_cast<uint64_t>(need.memory),
               0,
               static_cast<uint32_t>(std::lround(need.nvdec)),
               static_cast<uint32_t>(std::lround(need.nvenc)),
               1};
  out.apart = may_lose();
  out.instance = std::make_unique<Worker>(*this, at, 0);
  out.starting = stages_[at].starting;
  return out;
}

void VirtualNodes::start(const StageState& stage, const Slot& slot, Started started) {
  out_.starts[stage.index].push_back(seconds());
  at(stages_[stage.index].starting, [this, of = stage.index, node = slot.node, started = std::move(started)] {
    const Error why(KINORA_ERROR_FAILED, stages_[of].name + ": its node was lost");
    if (has_left(node)) return started(nullptr, &why);
    started(std::make_unique<Worker>(*this, of, node), nullptr);
  });
}

void VirtualNodes::change(Runner& runner, const Change& change) {
  if (change.what == Change::comes) return runner.add_node(tokens_of(change.has));
  left_.insert(change.node);
  if (change.what == Change::lost) lost_.insert(change.node);
  runner.lose_node(change.node);
}

// Returns late if nothing happens before: a look at the figures would find those of the last one.
void VirtualNodes::wait(double seconds) {
  const Time until = after(now_, seconds);
  while (!std::exchange(awake_, false)) {
    if (events_.empty() && ++idle_ > kIdle)
      throw Error(KINORA_ERROR_FAILED, "the simulated run does not end; please report this as a bug");
    const Time next = events_.empty() ? until : events_.begin()->first;
    now_ = std::max(now_, next);
    if (events_.empty() || next > until) return;
    idle_ = 0;
    happen();
  }
}

NodeRun VirtualNodes::run() {
  std::vector<const kinora_stage_spec*> pointers;
  for (const auto& spec : specs_) pointers.push_back(&spec);
  static constexpr auto of = [](void* self) -> VirtualNodes& { return *static_cast<VirtualNodes*>(self); };
  const kinora_pipeline pipeline{sizeof(kinora_pipeline),
                                 static_cast<uint32_t>(specs_.size()),
                                 pointers.data(),
                                 0,
                                 this,
                                 [](void* self, kinora_sample** out) { return of(self).next(out); },
                                 [](void* self, const kinora_outcome* outcome) -> int32_t {
                                   return of(self).ended(*outcome), KINORA_OK;
                                 },
                                 nullptr};
  run_to_end(pipeline);
  const Done all = done();
  out_.least = least(all);
  for (const double seconds : all.seconds) out_.work += seconds;
  if (full_ <= kFull * out_.seconds) return std::move(out_);
  for (size_t i = 0; i < stages_.size(); ++i) full_to_.seconds[i] -= full_from_.seconds[i];
  full_to_.bytes -= full_from_.bytes;
  out_.steady = least(full_to_) / full_;
  return std::move(out_);
}

// The name of what stages make of an input has a dash, and that of a copy an @.
void VirtualNodes::ended(const kinora_outcome& outcome) {
  out_.seconds = seconds();
  if (view(samples_api().key(outcome.sample)).find_first_of("-@") == std::string_view::npos)
    out_.ends.push_back(out_.seconds);
}

int32_t VirtualNodes::next(kinora_sample** out) {
  if (given_ == inputs_) return KINORA_SIGNAL_END;
  ++given_;
  if (given_ == (inputs_ + 2) / 3) third_ = seconds(), full_from_ = done();
  if (given_ == inputs_) full_ = seconds() - third_, full_to_ = done();
  return guard([&] { *out = Sample(std::to_string(given_ - 1)).release(); });
}

void VirtualNodes::run_to_end(const kinora_pipeline& pipeline) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  Settings settings;
  settings.nodes.clear();
  for (const balance::Node& node : nodes_) settings.nodes.push_back(tokens_of(node));
  settings.now = [this] { return now_; };
  const Run of(&run);
  Runner runner(pipeline, of, settings, *this);
  for (const Change& change : changes_) at(change.at, [&, this] { this->change(runner, change); });
  try {
    runner.run();
  } catch (...) {
    runner.stop();
    while (!events_.empty()) happen();
    throw;
  }
}

// Seconds that any schedule on all nodes takes for this.
double VirtualNodes::least(const Done& done) const {
  std::vector<Stage> all = stages_;
  for (size_t i = 0; i < all.size(); ++i) all[i].cost.from.clear(), all[i].cost.seconds = done.seconds[i];
  return std::max(1 / most_together(all, nodes_), rate_ > 0 ? done.bytes / rate_ : 0);
}

}  // namespace

double most_per_second(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes) {
  std::vector<balance::Stage> all;
  for (const Stage& s : stages) {
    balance::Stage& cost = all.emplace_back(s.cost);
    for (const balance::Node& node : nodes)  // requested workers run side by side (stage_state.cpp)
      if (s.cost.workers > 0)
        cost.need.cores = std::min(cost.need.cores, node.cores / static_cast<double>(s.cost.workers));
    cost.workers = (s.ordered ? 1 : s.cost.workers) * static_cast<int64_t>(nodes.size());
  }
  return shared_bound(all, nodes);
}

double most_together(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes) {
  std::vector<balance::Stage> all;
  double cores = 0;
  for (const balance::Node& node : nodes) cores += node.cores;
  for (const Stage& s : stages) {
    balance::Stage& cost = all.emplace_back(s.cost);
    if (cost.workers > 0)
      cost.need.cores = std::min(cost.need.cores, cores / static_cast<double>(cost.workers));
    if (s.ordered) cost.workers = 1;
  }
  return shared_bound(all, nodes);
}

NodeRun run_node(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed) {
  return VirtualNodes(stages, {node}, {}, inputs, seed, 0).run();
}

NodeRun run_nodes(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes,
                  const std::vector<Change>& changes, int64_t inputs, uint64_t seed, double store) {
  return VirtualNodes(stages, nodes, changes, inputs, seed, store).run();
}

}  // namespace kinora::engines::simulated
