#include "plugins/engines/ray/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <set>

#include "kinora/stage.hpp"

namespace kinora::ray {
namespace {

using nlohmann::json;

constexpr int kLook = 100;  // milliseconds
// Seconds between two attempts to start a bridge; each is twice as long as the one before.
constexpr double kFirstPause = 0.5, kLastPause = 30;
// Seconds before a node's end at which what works there is given up.
constexpr double kBeforeEnd = 5;
// Seconds: a bridge that says nothing for longer stands still; an instance may take as long to be made.
constexpr double kShortestSilence = 5, kLongestSilence = 60, kStart = 60;

std::string stage_named(const kinora_stage_spec& spec) { return "stage '" + std::string(spec.name) + "'"; }

kinora_resources resources_of(const json& told) {
  kinora_resources out{};
  out.struct_size = sizeof out;
  out.ordered = told.at("ordered");
  out.cores = told.at("cores");
  out.gpus = told.at("gpus");
  out.memory = told.at("memory");
  out.isolated = told.at("isolated");
  out.nvdec = told.at("nvdec");
  out.nvenc = told.at("nvenc");
  out.batch = told.at("batch");
  return out;
}

// Bytes of samples for an object store of this size: it also has what is being made or moved.
uint64_t room_in(uint64_t store) { return std::max<uint64_t>(1, store / 13 * 10); }

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

std::vector<engines::Tokens> Cluster::nodes() {
  Lock lock(mutex_);
  const auto until = engines::after(std::chrono::steady_clock::now(), limits_.wait);
  while (!opened_ && cut_off_.empty()) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    if (std::chrono::steady_clock::now() > until)
      throw Error(
          KINORA_ERROR_TIMEOUT,
          "engine/ray: no node of the cluster was ready within cluster_wait; see that `ray status` "
          "shows nodes that are free, that `where` names labels that they have, and that they have this "
          "version of kinora-ray" +
              (said_.empty() ? "" : " (" + said_ + ")"));
    changed_.wait_for(lock, std::chrono::milliseconds(kLook));
  }
  if (!cut_off_.empty()) throw Error(KINORA_ERROR_FAILED, cut_off_);
  std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    return std::pair(a.has.gpus, a.has.cores) > std::pair(b.has.gpus, b.has.cores);
  });
  std::vector<engines::Tokens> out;
  for (const Node& node : nodes_) out.push_back(node.has);
  given_ = out.size();
  return out;
}

std::shared_ptr<Worker> Cluster::new_worker(size_t node) {
  const auto out = std::make_shared<Worker>(++last_, node, bridge_.wire, limits_,
                                            [this](auto work) { post(std::move(work), false); });
  workers_.emplace(out->id(), out);
  return out;
}

std::shared_ptr<Worker> Cluster::start(const kinora_stage_spec& spec, size_t node,
                                       const std::vector<size_t>& devices, decltype(Starting::over) over) {
  Lock lock(mutex_);
  const auto worker = new_worker(node);
  Starting starting{worker, stage_named(spec), devices, limits_.now(), std::nullopt, std::move(over)};
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
  start(*stage.spec, slot.node, slot.devices,
        [this, started = std::move(started)](const auto& worker, const json*, const Error* why) {
          started(why ? nullptr : std::make_unique<Remote>(*this, worker), why);
        });
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
  const auto worker = start(spec, node, {}, [this, answer](const auto&, const json* told, const Error* why) {
    try {
      if (!told && !why) answer->why = Error(KINORA_ERROR_FAILED, cut_off_);
      if (why) answer->why = *why;
      if (told) answer->needs = resources_of(*told);
    } catch (const std::exception& e) {
      answer->why = Error(KINORA_ERROR_DATA, std::string("the bridge sent a malformed message: ") + e.what());
    }
    answer->over.set_value();
  });
  instance = std::make_unique<Remote>(*this, worker);
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

void Cluster::read() {
  auto looked = std::chrono::steady_clock::now();
  for (;;) {
    const auto wire = connected();
    const auto asked = limits_.now();  // what a bridge has sent while this process stood still is read first
    Letter letter;
    std::string end;
    Wire::Got got = Wire::Got::nothing;
    try {
      if (wire)
        got = wire->receive(letter, kLook);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(kLook));
      if (got == Wire::Got::closed) end = "the bridge to Ray has ended";
    } catch (const Error& e) {
      end = std::string("the bridge to Ray sent a malformed message: ") + e.what();
    }
    const Lock lock(mutex_);
    if (ends_) return;
    if (closed_) continue;
    if (got == Wire::Got::letter) {
      heard_ = limits_.now();
      hear(std::move(letter));
    } else if (heard_ && engines::seconds_between(*heard_, asked) > longest_silence()) {
      end = "the bridge to Ray stands still";
    }
    if (!end.empty()) lose_bridge(end);
    const auto now = std::chrono::steady_clock::now();
    if (now - looked < std::chrono::milliseconds(kLook)) continue;
    looked = now;
    look();
  }
}

// Less than after which the samples would be blamed.
double Cluster::longest_silence() const {
  return limits_.timeout > 0 ? std::clamp(limits_.timeout / 2, kShortestSilence, kLongestSilence)
                             : kLongestSilence;
}

// The wire, if need be to a new bridge; null: there is none now.
std::shared_ptr<const Wire> Cluster::connected() {
  {
    const Lock lock(mutex_);
    if (closed_) return nullptr;
    const bool connects = !bridge_.wire && cut_off_.empty() && limits_.now() >= connects_;
    if (!connects) return bridge_.wire;
  }
  try {
    replace_bridge();
  } catch (const Error& e) {
    const Lock lock(mutex_);
    if (!closed_) lose_bridge(e.what());
  }
  const Lock lock(mutex_);
  return bridge_.wire;
}

// Waits for the end of the old one.
void Cluster::replace_bridge() {
  Bridge old;
  {
    const Lock lock(mutex_);
    old = std::exchange(bridge_, {});
  }
  old = {};
  Bridge made = connect_();
  json letter = open_;
  letter["is"] = "open";
  made.wire->send(std::move(letter));
  const Lock lock(mutex_);
  bridge_ = std::move(made);
}

// All that was on its nodes is lost. Before there was a node nothing says that there will be one.
void Cluster::lose_bridge(const std::string& why) {
  bridge_.wire = nullptr;
  heard_.reset();
  if (!opened_) return cut_off("engine/ray: " + why);
  bridge_ended_ = why;
  if (has_node())
    log(Log::warn, "engine/ray: " + why +
                       "; all nodes with it, and what they worked on is done again when there are nodes");
  connects_ = engines::after(limits_.now(), pause_);
  pause_ = std::clamp(2 * pause_, kFirstPause, kLastPause);
  for (auto& [id, worker] : workers_) worker->die("lost with the bridge to Ray", true);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].id.clear();
    if (!std::exchange(nodes_[i].lost, true)) lose(i);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) lose_pieces_on(i);
  for (auto& [id, starting] : std::exchange(starting_, {})) turn_away(std::move(starting));
}

// A worker that has been stopped is not known any more: the rest of what it said is dropped.
void Cluster::hear(Letter letter) {
  const json& head = letter.head;
  try {
    const auto is = head.at("is").get<std::string>();
    if (is == "told" || is == "done") {
      const auto at = workers_.find(head.at("worker").get<int64_t>());
      const bool known = at != workers_.end();
      if (letter.sample)
        bridge_.wire->pieces().attach(*letter.sample, std::move(letter.elsewhere),
                                      known ? at->second->node() : 0);
      if (known) at->second->hear(std::move(letter));
    } else if (is == "node") {
      hear_of_node(head);
    } else if (is == "opened") {
      opened_ = !nodes_.empty();
      changed_.notify_all();
    } else if (is == "started") {
      started(head);
    } else if (is == "died") {
      died(head);
    } else if (is == "lost") {
      lose_pieces([ids = head.at("pieces").get<std::set<uint64_t>>()](const engines::RemotePiece& piece) {
        return ids.contains(piece.id);
      });
    } else if (is == "said") {
      said_ = head.at("message").get<std::string>();
      log(head.at("level") == "warn" ? Log::warn : Log::info, "engine/ray: " + said_);
    } else if (is == "gone") {
      lose_bridge(head.at("message").get<std::string>());
    }
  } catch (const json::exception& e) {
    lose_bridge(std::string("the bridge to Ray sent a malformed message: ") + e.what());
  }
}

void Cluster::hear_of_node(const json& head) {
  const auto id = head.at("node").get<std::string>();
  const auto state = head.at("state").get<std::string>();
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.id == id; });
  if (state == "ready") {
    const double gpus = head.at("gpus");
    if (at == nodes_.end())
      add({id,
           {head.at("cores"), gpus, head.at("memory"), gpus, gpus,
            head.value("address", "node") + "-" + id.substr(0, 6),  // an address may have several nodes
            room_in(head.at("store"))}});
    return;
  }
  if (at == nodes_.end()) return;
  const auto node = static_cast<size_t>(at - nodes_.begin());
  if (!at->lost) leave(node, head);
  if (state == "lost") lose_pieces_on(node);
}

void Cluster::leave(size_t node, const json& head) {
  Node& it = nodes_[node];
  log(Log::warn,
      "engine/ray: node " + head.value("address", it.id) +
          (head.at("state") == "leaving" ? " leaves; nothing begins there any more"
                                         : " was lost; what it worked on is done again elsewhere"));
  it.lost = true;
  if (head.contains("left") && !head["left"].is_null())
    it.ends = engines::after(limits_.now(), std::max(0.0, head["left"].get<double>() - kBeforeEnd));
  for (auto& [number, worker] : workers_)
    if (worker->node() == node) worker->leave();
  lose(node);
}

// The run's lock may be taken under this one, never the other way round.
void Cluster::add(Node node) {
  if (!nodes_.empty() && !has_node())
    log(Log::info, "engine/ray: there is a node again, and the run goes on");
  pause_ = 0;
  bridge_ended_.clear();
  nodes_.push_back(std::move(node));
  if (runner_) runner_->add_node(nodes_.back().has);
  for (Starting& starting : std::exchange(waiting_, {})) turn_away(std::move(starting));
}

void Cluster::lose(size_t node) {
  if (runner_) runner_->lose_node(node);
}

void Cluster::lose_pieces_on(size_t node) {
  if (std::exchange(nodes_[node].gone, true)) return;
  lose_pieces([node](const engines::RemotePiece& piece) { return piece.node == node; });
}

// Samples that have such a piece are made again.
void Cluster::lose_pieces(std::function<bool(const engines::RemotePiece&)> is_lost) {
  if (!runner_) return;
  runner_->lose([is_lost = std::move(is_lost)](const Sample& sample) {
    const engines::RemotePieces* remote = engines::remote_of(sample);
    return remote && std::any_of(remote->pieces().begin(), remote->pieces().end(), is_lost);
  });
}

// As Machine::freest() sees it.
bool Cluster::has_node(const std::vector<size_t>& devices) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return !node.lost && std::all_of(devices.begin(), devices.end(), [&](size_t device) {
      return static_cast<double>(device) < node.has.gpus;
    });
  });
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

void Cluster::end_late_starts(engines::Time now) {
  const double most = std::max(limits_.timeout, kStart);
  for (auto at = starting_.begin(); at != starting_.end() && limits_.timeout > 0;) {
    const auto one = at++;
    if (engines::seconds_between(one->second.begun, now) <= most) continue;
    Starting starting = std::move(one->second);
    starting_.erase(one);
    later([this, worker = starting.worker] { stop(*worker); });
    const Error why(KINORA_ERROR_FAILED, starting.stage + ": no process of it was ready within " +
                                             std::to_string(std::lround(most)) + " s (item_timeout)");
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
