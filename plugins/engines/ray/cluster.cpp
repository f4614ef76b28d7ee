#include "plugins/engines/ray/cluster.hpp"

#include <algorithm>
#include <future>

#include "kinora/stage.hpp"

namespace kinora::ray {
namespace {

using nlohmann::json;

constexpr int kLook = 100;  // milliseconds

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

Cluster::Cluster(std::unique_ptr<Wire> wire, const Run& run, const Limits& limits, json open)
    : wire_(std::move(wire)), run_(*run.get()), limits_(limits) {
  open["is"] = "open";
  wire_->send(std::move(open));
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

std::vector<engines::Tokens> Cluster::nodes(double seconds) {
  Lock lock(mutex_);
  const auto until = engines::after(std::chrono::steady_clock::now(), seconds);
  while (!opened_ && cut_off_.empty()) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    if (std::chrono::steady_clock::now() > until)
      throw Error(KINORA_ERROR_TIMEOUT,
                  "engine/ray: no node of the cluster was ready within cluster_wait; see that `ray status` "
                  "shows nodes, "
                  "that `where` names labels that they have, and that they have this version of kinora-ray");
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

std::shared_ptr<Worker> Cluster::start(const kinora_stage_spec& spec, size_t node,
                                       const std::vector<size_t>& devices, decltype(Starting::over) over) {
  Lock lock(mutex_);
  const int64_t id = ++last_;
  const auto worker = std::make_shared<Worker>(id, node, *wire_, limits_,
                                               [this](auto work) { post(std::move(work), false); });
  workers_.emplace(id, worker);
  Starting starting{worker, stage_named(spec), std::move(over)};
  if (!cut_off_.empty()) {
    worker->cut_off(cut_off_);
    later([starting = std::move(starting)] { starting.over(starting.worker, nullptr, nullptr); });
    return worker;
  }
  if (nodes_[node].lost) {
    not_started(std::move(starting), Error(KINORA_ERROR_FAILED, stage_named(spec) + ": its node was lost"));
    return worker;
  }
  starting_.emplace(id, std::move(starting));
  json letter{{"is", "start"},           {"worker", id},
              {"node", nodes_[node].id}, {"id", spec.id},
              {"name", spec.name},       {"options", spec.options_json},
              {"devices", devices},      {"cores", nodes_[node].has.cores},
              {"seed", run_.seed},       {"out", std::string(view(run_.out))}};
  lock.unlock();
  try {
    wire_->send(std::move(letter));
  } catch (const Error&) {  // the reader sees the end of the bridge
  }
  return worker;
}

void Cluster::start(const engines::StageState& stage, const engines::Slot& slot, Started started) {
  start(*stage.spec, slot.node, slot.devices,
        [this, started = std::move(started)](const auto& worker, const json*, const Error* why) {
          started(why ? nullptr : std::make_unique<Remote>(*this, worker), why);
        });
}

engines::FirstInstance Cluster::first(const kinora_stage_spec& spec) {
  struct Answer {
    std::promise<void> over;
    kinora_resources needs{};
    std::optional<Error> why;
  };
  const auto answer = std::make_shared<Answer>();
  const auto begin = std::chrono::steady_clock::now();
  std::future<void> over = answer->over.get_future();
  const auto worker = start(spec, 0, {}, [this, answer](const auto&, const json* told, const Error* why) {
    try {
      if (!told && !why) answer->why = Error(KINORA_ERROR_FAILED, cut_off_);
      if (why) answer->why = *why;
      if (told) answer->needs = resources_of(*told);
    } catch (const std::exception& e) {
      answer->why = Error(KINORA_ERROR_DATA, std::string("the bridge sent a malformed message: ") + e.what());
    }
    answer->over.set_value();
  });
  auto instance = std::make_unique<Remote>(*this, worker);
  while (over.wait_for(std::chrono::milliseconds(kLook)) != std::future_status::ready)
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  if (answer->why) throw *answer->why;
  engines::FirstInstance out;
  out.needs = answer->needs;
  out.apart = true;
  out.batches = KINORA_HAS(spec.stage, process_batch) && spec.stage->process_batch;
  out.finishes = spec.stage->finish != nullptr;
  out.instance = std::move(instance);
  out.starting = engines::seconds_between(begin, std::chrono::steady_clock::now());
  return out;
}

void Cluster::stop(const Worker& worker) {
  {
    const Lock lock(mutex_);
    workers_.erase(worker.id());
    starting_.erase(worker.id());
  }
  try {
    wire_->send({{"is", "stop"}, {"worker", worker.id()}});
  } catch (const Error&) {
  }
}

void Cluster::read() {
  auto looked = std::chrono::steady_clock::now();
  for (bool open = true;;) {
    Letter letter;
    std::string end;
    Wire::Got got = Wire::Got::nothing;
    try {
      if (open)
        got = wire_->receive(letter, kLook);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(kLook));
      if (got == Wire::Got::closed) end = "its bridge to Ray has ended";
    } catch (const Error& e) {
      end = std::string("its bridge to Ray sent a malformed message: ") + e.what();
    }
    const Lock lock(mutex_);
    if (ends_) return;
    if (closed_) continue;
    if (got == Wire::Got::letter) hear(std::move(letter));
    if (!end.empty())
      cut_off("engine/ray: " + end + "; what was recorded stays: run the same command again to continue");
    open = open && end.empty();
    const auto now = std::chrono::steady_clock::now();
    if (now - looked < std::chrono::milliseconds(kLook)) continue;
    looked = now;
    look();
  }
}

// A worker that has been stopped is not known any more: the rest of what it said is dropped.
void Cluster::hear(Letter letter) {
  const json& head = letter.head;
  try {
    const auto is = head.at("is").get<std::string>();
    if (is == "told" || is == "done") {
      const auto at = workers_.find(head.at("worker").get<int64_t>());
      if (at != workers_.end()) at->second->hear(std::move(letter));
    } else if (is == "node") {
      hear_of_node(head);
    } else if (is == "opened") {
      opened_ = !nodes_.empty();
      changed_.notify_all();
    } else if (is == "started") {
      started(head);
    } else if (is == "died") {
      died(head);
    } else if (is == "said") {
      log(head.at("level") == "warn" ? Log::warn : Log::info,
          "engine/ray: " + head.at("message").get<std::string>());
    } else if (is == "gone") {
      cut_off("engine/ray: " + head.at("message").get<std::string>());
    }
  } catch (const json::exception& e) {
    cut_off(std::string("engine/ray: the bridge sent a malformed message: ") + e.what());
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
           {head.at("cores"), gpus, head.at("memory"), std::max(1.0, gpus), std::max(1.0, gpus),
            head.value("address", "node") + "-" + id.substr(0, 6)}});  // an address may have several nodes
    return;
  }
  if (at == nodes_.end() || at->lost) return;
  const auto node = static_cast<size_t>(at - nodes_.begin());
  log(Log::warn, "engine/ray: node " + head.value("address", id) +
                     (state == "leaving" ? " leaves; nothing begins there any more"
                                         : " was lost; what it worked on is done again elsewhere"));
  at->lost = true;
  for (auto& [number, worker] : workers_)
    if (worker->node() == node) worker->leave();
  lose(node);
}

// The run's lock may be taken under this one, never the other way round.
void Cluster::add(Node node) {
  nodes_.push_back(std::move(node));
  if (runner_) runner_->add_node(nodes_.back().has);
}

void Cluster::lose(size_t node) {
  if (std::all_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.lost; }))
    return cut_off(
        "engine/ray: no node is left; what was recorded stays: run the same command again to continue");
  if (runner_) runner_->lose_node(node);
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
    const std::string stage = starting.stage;
    return not_started(std::move(starting), Error(KINORA_ERROR_FAILED, stage + ": " + how));
  }
  if (const auto at = workers_.find(id); at != workers_.end())
    at->second->die(how, head.value("lost", false));
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
  for (auto& [id, starting] : std::exchange(starting_, {}))
    later([starting = std::move(starting)] { starting.over(starting.worker, nullptr, nullptr); });
}

void Cluster::look() {
  for (auto& [id, worker] : workers_) worker->look();
  if (!cancelled()) return;
  for (auto& [id, starting] : std::exchange(starting_, {}))
    not_started(std::move(starting), Error(KINORA_ERROR_CANCELLED, "cancelled"));
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
