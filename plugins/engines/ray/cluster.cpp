#include "plugins/engines/ray/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <future>

#include "host/workers/resources_message.hpp"
#include "kinora/stage.hpp"

namespace kinora::ray {
namespace {

using nlohmann::json;

// Seconds that an instance may take to be made, at least; and until its process has begun.
constexpr double kStart = 60, kPlace = 30;

std::string stage_named(const kinora_stage_spec& spec) { return "stage '" + std::string(spec.name) + "'"; }

}  // namespace

class Cluster::Remote final : public engines::Instance {
 public:
  Remote(Cluster& cluster, std::shared_ptr<Worker> worker) : cluster_(cluster), worker_(std::move(worker)) {}
  ~Remote() override { cluster_.stop(*worker_); }
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  void send(engines::Task& task) override { worker_->call(task); }
  bool is_apart() const override { return true; }
  bool ended() const override { return worker_->ended(); }
  bool lost() const override { return worker_->lost(); }

 private:
  Cluster& cluster_;
  const std::shared_ptr<Worker> worker_;
};

Cluster::Cluster(Connect connect, const Run& run, const Limits& limits, json open)
    : connect_(std::move(connect)),
      run_(*run.get()),
      limits_(limits),
      open_(std::move(open)),
      isolation_{{"auto"}, limits.timeout, limits.limit, 0, 0, engines::workers_of_host()} {
  replace_bridge();
  reader_ = std::thread([this] { read(); });
}

Cluster::~Cluster() {
  close();
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  reader_.join();
}

void Cluster::close() {
  {
    const Lock lock(mutex_);
    closed_ = true;
    runner_ = nullptr;
  }
  join();
}

void Cluster::attend(engines::Runner* runner) {
  const Lock lock(mutex_);
  runner_ = runner;
  for (size_t i = given_; i < nodes_.size(); ++i) runner->add_node(nodes_[i].has);
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].lost) lose(i);
}

bool Cluster::cancelled() const { return run_.cancelled && run_.cancelled(run_.self) != KINORA_OK; }

std::shared_ptr<Worker> Cluster::new_worker(size_t node) {
  const auto out = std::make_shared<Worker>(++last_, node, bridge_.wire, limits_,
                                            [this](auto work) { post(std::move(work), false); });
  workers_.emplace(out->id(), out);
  return out;
}

std::shared_ptr<Worker> Cluster::start(const kinora_stage_spec& spec, size_t node, Starting starting) {
  Lock lock(mutex_);
  const auto worker = starting.worker = new_worker(node);
  const auto devices = starting.devices;
  starting.stage = stage_named(spec), starting.begun = limits_.now();
  if (!cut_off_.empty()) {
    refuse(std::move(starting));
    return worker;
  }
  if (nodes_[node].lost) {
    turn_away(std::move(starting));
    return worker;
  }
  starting_.emplace(worker->id(), std::move(starting));
  json letter{{"is", "start"},           {"worker", worker->id()},
              {"node", nodes_[node].id}, {"id", spec.id},
              {"name", spec.name},       {"options", spec.options_json},
              {"devices", devices},      {"cores", nodes_[node].has.cores},
              {"seed", run_.seed},       {"out", std::string(view(run_.out))}};
  const auto wire = bridge_.wire;
  lock.unlock();
  try {
    wire->send(std::move(letter));
  } catch (const Error&) {  // the reader sees the end of the bridge
  }
  return worker;
}

void Cluster::start(const engines::StageState& stage, const engines::Slot& slot, Started started) {
  if (stage.here) return isolation_.start(*stage.spec, stage.isolated, started);
  Starting starting;
  starting.devices = slot.devices;
  starting.cores = stage.need.cores;
  starting.may_lack = stage.instances > 0;
  starting.over = [this, started = std::move(started)](const auto& worker, const json*, const Error* why) {
    started(why ? nullptr : std::make_unique<Remote>(*this, worker), why);
  };
  start(*stage.spec, slot.node, std::move(starting));
}

// An instance on the cluster tells what the stage needs.
engines::FirstInstance Cluster::first(const kinora_stage_spec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  engines::FirstInstance out;
  std::optional<kinora_resources> needs;
  while (!needs) needs = start_first(spec, out.instance);
  out.needs = *needs;
  out.here = needs->ordered == 1 && needs->gpus <= 0;
  out.apart = !out.here || (isolation_.workers && needs->isolated != 0);
  if (out.here) out.instance = isolation_.make(spec, out.apart);
  out.batches =
      !(out.here && out.apart) && KINORA_HAS(spec.stage, process_batch) && spec.stage->process_batch;
  out.finishes = spec.stage->finish != nullptr;
  out.starting = engines::seconds_between(begin, std::chrono::steady_clock::now());
  return out;
}

// On the first node that is left; nullopt: it was lost meanwhile.
std::optional<kinora_resources> Cluster::start_first(const kinora_stage_spec& spec,
                                                     std::unique_ptr<engines::Instance>& instance) {
  struct Answer {
    std::promise<void> over;
    kinora_resources needs{};
    std::optional<Error> why;
  };
  const auto answer = std::make_shared<Answer>();
  std::future<void> over = answer->over.get_future();
  size_t node = 0;
  {
    const Lock lock(mutex_);
    while (node + 1 < nodes_.size() && nodes_[node].lost) ++node;
  }
  Starting starting;
  starting.over = [this, answer](const auto&, const json* told, const Error* why) {
    try {
      if (!told && !why) answer->why = Error(KINORA_ERROR_FAILED, cut_off_);
      if (why) answer->why = *why;
      if (told) answer->needs = core::take_resources(*told);
    } catch (const std::exception& e) {
      answer->why = Error(KINORA_ERROR_DATA, std::string("the bridge sent a malformed message: ") + e.what());
    }
    answer->over.set_value();
  };
  instance = std::make_unique<Remote>(*this, start(spec, node, std::move(starting)));
  while (over.wait_for(std::chrono::milliseconds(kLook)) != std::future_status::ready)
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  if (!answer->why) return answer->needs;
  const Lock lock(mutex_);
  const bool lost = nodes_[node].lost && cut_off_.empty();
  if (lost && answer->why->code() == KINORA_ERROR_FAILED) return std::nullopt;
  throw *answer->why;
}

void Cluster::stop(const Worker& worker) {
  std::shared_ptr<const Wire> wire;
  {
    const Lock lock(mutex_);
    workers_.erase(worker.id());
    starting_.erase(worker.id());
    wire = bridge_.wire;
  }
  try {
    if (wire) wire->send({{"is", "stop"}, {"worker", worker.id()}});
  } catch (const Error&) {
  }
}

void Cluster::placed(const json& head) {
  const auto at = starting_.find(head.at("worker").get<int64_t>());
  if (at != starting_.end()) at->second.placed = true;
}

void Cluster::started(const json& head) {
  const auto at = starting_.find(head.at("worker").get<int64_t>());
  if (at == starting_.end()) return;
  Starting starting = std::move(at->second);
  starting_.erase(at);
  later([starting = std::move(starting), resources = head.at("resources")] {
    starting.over(starting.worker, &resources, nullptr);
  });
}

void Cluster::died(const json& head) {
  const auto id = head.at("worker").get<int64_t>();
  const auto how = head.at("message").get<std::string>();
  if (const auto at = starting_.find(id); at != starting_.end()) {
    Starting starting = std::move(at->second);
    starting_.erase(at);
    if (nodes_[starting.worker->node()].lost) return turn_away(std::move(starting));
    const std::string stage = starting.stage;
    return not_started(std::move(starting), Error(KINORA_ERROR_FAILED, stage + ": " + how));
  }
  if (const auto at = workers_.find(id); at != workers_.end())
    at->second->die(how, head.value("lost", false));
}

// Its node has gone: the run tries another one, as soon as there is one.
void Cluster::turn_away(Starting starting) {
  if (has_node(starting.devices)) {
    const Error why(KINORA_ERROR_FAILED, starting.stage + ": its node was lost");
    return not_started(std::move(starting), why);
  }
  if (!starting.since) starting.since = limits_.now();
  waiting_.push_back(std::move(starting));
}

void Cluster::not_started(Starting starting, Error why) {
  workers_.erase(starting.worker->id());
  later([starting = std::move(starting), why = std::move(why)] {
    starting.over(starting.worker, nullptr, &why);
  });
}

// Nothing fails for it: each call is refused, which ends the run.
void Cluster::cut_off(const std::string& why) {
  if (!cut_off_.empty()) return;
  cut_off_ = why;
  changed_.notify_all();
  for (auto& [id, worker] : workers_) worker->cut_off(why);
  for (auto& [id, starting] : std::exchange(starting_, {})) refuse(std::move(starting));
  for (Starting& starting : std::exchange(waiting_, {})) refuse(std::move(starting));
}

// The worker may have died with its node, which is no reason to refuse.
void Cluster::refuse(Starting starting) {
  workers_.erase(starting.worker->id());
  starting.worker = new_worker(starting.worker->node());
  starting.worker->cut_off(cut_off_);
  later([starting = std::move(starting)] { starting.over(starting.worker, nullptr, nullptr); });
}

void Cluster::look() {
  const engines::Time now = limits_.now();
  for (auto& [id, worker] : workers_) {
    const auto& ends = nodes_[worker->node()].ends;
    if (ends && now >= *ends) worker->die("lost with its node", true);
    worker->look();
  }
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].ends && now >= *nodes_[i].ends) lose_pieces_on(i);
  end_late_starts(now);
  end_what_waits(now);
  if (!cancelled() && !(runner_ && runner_->stopping())) return;
  for (auto& [id, starting] : std::exchange(starting_, {}))
    not_started(std::move(starting), Error(KINORA_ERROR_CANCELLED, "cancelled"));
  for (Starting& starting : std::exchange(waiting_, {}))
    not_started(std::move(starting), Error(KINORA_ERROR_CANCELLED, "cancelled"));
}

void Cluster::end_what_waits(engines::Time now) {
  for (const Starting& starting : waiting_) {
    if (engines::seconds_between(*starting.since, now) <= limits_.wait) continue;
    return cut_off("engine/ray: no node was left for " + starting.stage +
                   ", and none came within cluster_wait" +
                   (bridge_ended_.empty() ? "" : " (" + bridge_ended_ + ")") +
                   "; see that `ray status` shows nodes; what was recorded stays: run the same command again "
                   "to continue");
  }
}

// A process that the node does not begin: the node has less than it seems, of which the next plan knows. One that has
// begun may read weights for long.
void Cluster::end_late_starts(engines::Time now) {
  const double longest = std::max(limits_.timeout, kStart);
  for (auto at = starting_.begin(); at != starting_.end();) {
    const auto one = at++;
    const bool lacks = one->second.may_lack && !one->second.placed;
    const double most = lacks ? kPlace : longest;
    if ((!lacks && limits_.timeout <= 0) || engines::seconds_between(one->second.begun, now) <= most)
      continue;
    Starting starting = std::move(one->second);
    starting_.erase(one);
    later([this, worker = starting.worker] { stop(*worker); });
    const size_t node = starting.worker->node();
    const std::string seconds = std::to_string(std::lround(most));
    const Error why(
        KINORA_ERROR_FAILED,
        starting.stage +
            (lacks ? ": node " + nodes_[node].has.name + " began no process of it within " + seconds + " s"
                   : ": no process of it was ready within " + seconds + " s (item_timeout)"));
    if (lacks) correct(node, starting.cores);
    not_started(std::move(starting), why);
  }
}

void Cluster::later(std::function<void()> work) {
  if (!closed_) post(std::move(work), false);
}

void run_on(Cluster& cluster, const kinora_pipeline& pipeline, const Run& run,
            const engines::Settings& settings) {
  engines::Runner runner(pipeline, run, settings, cluster);
  cluster.attend(&runner);
  engines::run_to_end(runner, [&] { cluster.close(); });
}

}  // namespace kinora::ray
