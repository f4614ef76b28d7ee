// A bridge without Ray: it speaks the protocol of wire.hpp, and its "processes" are threads of the test, which call
// the stages of a Pipeline (engines/local/engine_testing.hpp). They die, hang, and nodes are lost, as a test asks. Its
// nodes keep pieces, and count their bytes (stores_testing.hpp).
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "core/plugin/host.hpp"
#include "host/workers/resources_message.hpp"
#include "plugins/engines/local/engine_testing.hpp"
#include "plugins/engines/ray/cluster.hpp"
#include "plugins/engines/ray/stores_testing.hpp"

namespace kinora::ray {

using local::Act;
using nlohmann::json;

// What goes wrong.
struct Chaos {
  std::vector<uint64_t>
      stores{};  // bytes of the nodes' object stores, the last also of those that follow; none: 1 GiB
  // Of an event of a call (0: its begin, then what it tells, at last its end): whether the process dies there.
  std::function<bool(const std::string& stage, const std::string& key, int event)> dies = nullptr;
  // ... whether it does nothing more there, and gives no sign of life.
  std::function<bool(const std::string& stage, const std::string& key, int event)> hangs = nullptr;
  std::map<int, size_t> losses{}, leaves{};    // after so many calls this node is lost, or leaves
  std::map<int, double> joins{};               // ... a node of so many cores comes
  std::optional<double> left{};                // seconds until the end of a node that leaves
  std::vector<int> ends_after{};               // calls after which the first bridge, the second one... ends
  std::set<int> gone{};                        // bridges, from 0, that find no cluster
  std::set<size_t> strangers{};                // nodes without the folder for what leaves the pipeline
  std::set<int> drops{};                       // calls, from 1, that are never answered
  int stands_still = 0;                        // from this call on the first bridge says nothing
  std::set<int> mutes{};                       // starts, from 1, that are never answered
  std::set<int> unplaced{};                    // ... whose process never begins
  std::function<void()> on_silence = nullptr;  // one of these three has begun
  int opens_ms = 0;                            // before there are nodes
  std::string says = "";                       // to the log, before there are nodes
  json has{};                                  // what all nodes have besides: members of the letter `node`
  std::function<void(const json&)> on_start = nullptr;  // of each letter `start`
  std::function<void()> on_ready = nullptr;             // in each process, before it says so
};

class FakeBridge {
 public:
  // number: of the bridges of a run, from 0.
  FakeBridge(std::deque<Act>& acts, std::vector<double> cores, Chaos chaos, int number)
      : acts_(acts),
        cores_(std::move(cores)),
        chaos_(std::move(chaos)),
        number_(number),
        stores_(static_cast<uint64_t>(number) << 32) {
    auto [here, there] = core::socket_pair();
    there_ = ::dup(there.get());
    wire_ = std::make_unique<core::Channel>(std::move(here));
    lost_.resize(cores_.size());
    reader_ = std::thread([this] { read(); });
  }
  ~FakeBridge() { wait(); }
  FakeBridge(const FakeBridge&) = delete;
  FakeBridge& operator=(const FakeBridge&) = delete;
  // The engine's end.
  int socket() const { return there_; }
  // For after the engine's end has closed.
  void wait() {
    if (reader_.joinable()) reader_.join();
  }
  const Stores& stores() const { return stores_; }

 private:
  struct Actor {
    int64_t id;
    size_t node;
    Act& act;
    std::deque<json> calls{};
    bool home = false, stores = false;
    uint64_t call = 0;
    int taken = 0, told = 0, event = 0;
    bool cancelled = false, dead = false, stopped = false;
    std::string key{};
    std::condition_variable changed{};
    std::thread thread{};
  };
  using Lock = std::unique_lock<std::mutex>;

  void read() {
    for (core::Message letter;; letter = {}) {
      const auto got = wire_->receive(letter, 10);
      if (got == core::Channel::Got::closed) break;
      const Lock lock(mutex_);
      if (got == core::Channel::Got::nothing && opened_) send({{"is", "beat"}});
      if (letter.head.is_object() && !still_) hear(letter);
      if (ends_) break;
    }
    {
      const Lock lock(mutex_);
      for (auto& [id, actor] : actors_) actor->stopped = true, actor->changed.notify_all();
    }
    for (auto& [id, actor] : actors_) actor->thread.join();
    wire_.reset();
  }

  void send(json head) {
    core::Message message;
    message.head = std::move(head);
    pass(message);
  }
  // The engine may have gone.
  void pass(const core::Message& message) {
    try {
      if (!still_) wire_->send(message);
    } catch (const Error&) {
    }
  }

  void hear(core::Message& letter) {
    for (const uint64_t id : letter.head.value("free", std::vector<uint64_t>{})) stores_.free(id);
    const auto is = letter.head.at("is").get<std::string>();
    if (is == "open") return open(letter.head);
    if (is == "start") return start(letter.head);
    if (is == "input") return inputs_[letter.head.at("call")].push_back(std::move(letter));
    if (is == "take") {
      for (auto& [id, actor] : actors_)
        if (actor->call == letter.head.at("call")) ++actor->taken, actor->changed.notify_all();
      return;
    }
    const auto at = actors_.find(letter.head.at("worker"));
    if (at == actors_.end()) return;
    Actor& actor = *at->second;
    if (is == "cancel") actor.cancelled = true;
    if (is == "stop") actor.stopped = true;
    if (is == "call" && !chaos_.drops.contains(count_call())) actor.calls.push_back(letter.head);
    actor.changed.notify_all();
  }

  void open(const json& head) {
    store_ = head.value("store", "");
    if (chaos_.gone.contains(number_)) {
      ends_ = true;
      return send({{"is", "gone"}, {"message", "no Ray cluster"}});
    }
    local::sleep_ms(chaos_.opens_ms);
    if (!chaos_.says.empty()) send({{"is", "said"}, {"level", "warn"}, {"message", chaos_.says}});
    if (cores_.empty()) return;
    for (size_t i = 0; i < cores_.size(); ++i) tell_of(i, "ready");
    send({{"is", "opened"}});
    opened_ = true;
  }

  void tell_of(size_t node, const char* state) {
    json letter{{"is", "node"},    {"node", std::to_string(node)},
                {"state", state},  {"cores", cores_[node]},
                {"gpus", 0},       {"memory", 1 << 30},
                {"store", 1 << 30}};
    if (!chaos_.stores.empty()) letter["store"] = chaos_.stores[std::min(node, chaos_.stores.size() - 1)];
    if (chaos_.left) letter["left"] = *chaos_.left;
    if (!chaos_.has.is_null()) letter.update(chaos_.has);
    send(std::move(letter));
  }

  void start(const json& head) {
    if (chaos_.on_start) chaos_.on_start(head);
    const auto id = head.at("worker").get<int64_t>();
    if (chaos_.unplaced.contains(++starts_)) return chaos_.on_silence();
    send({{"is", "placed"}, {"worker", id}});
    if (chaos_.mutes.contains(starts_)) return chaos_.on_silence();
    const size_t node = std::stoul(head.at("node").get<std::string>());
    if (lost_[node])
      return send({{"is", "died"}, {"worker", id}, {"message", "no such node"}, {"lost", true}});
    for (Act& act : acts_) {
      if (act.name != head.at("name")) continue;
      std::unique_ptr<Actor> actor(new Actor{id, node, act});
      Actor& it = *actor;
      actors_.emplace(id, std::move(actor));
      it.thread = std::thread([this, &it] { work(it); });
      return;
    }
    send({{"is", "died"}, {"worker", id}, {"message", "no stage of this name"}, {"lost", false}});
  }

  int count_call() {
    const int n = ++calls_;
    const auto number = static_cast<size_t>(number_);
    if (number < chaos_.ends_after.size() && n == chaos_.ends_after[number]) ends_ = true;
    if (number_ == 0 && n == chaos_.stands_still) {
      still_ = true;
      chaos_.on_silence();
    }
    if (const auto one = chaos_.leaves.find(n); one != chaos_.leaves.end()) tell_of(one->second, "leaving");
    if (const auto one = chaos_.joins.find(n); one != chaos_.joins.end()) {
      cores_.push_back(one->second);
      lost_.push_back(false);
      tell_of(cores_.size() - 1, "ready");
    }
    const auto at = chaos_.losses.find(n);
    if (at == chaos_.losses.end() || lost_[at->second]) return n;
    lost_[at->second] = true;
    stores_.lose(at->second);
    tell_of(at->second, "lost");
    for (auto& [id, actor] : actors_)
      if (actor->node == at->second && !actor->stopped) die(*actor, "lost with its node", true);
    return n;
  }

  void die(Actor& actor, const char* how, bool lost) {
    if (actor.dead) return;
    actor.dead = true;
    actor.changed.notify_all();
    send({{"is", "died"}, {"worker", actor.id}, {"message", how}, {"lost", lost}});
  }

  // Under the lock: whether the process is still there after this event.
  bool lives(Actor& actor, Lock& lock) {
    const int event = actor.event++;
    if (!actor.dead && chaos_.dies && chaos_.dies(actor.act.name, actor.key, event))
      die(actor, "killed", false);
    if (!actor.dead && chaos_.hangs && chaos_.hangs(actor.act.name, actor.key, event))
      actor.changed.wait(lock, [&] { return actor.stopped || actor.dead; });
    return !actor.dead && !actor.stopped && !ends_;
  }

  void work(Actor& actor) {
    const kinora_stage& table = *local::act_table();
    void* self = table.create(nullptr, reinterpret_cast<const kinora_options*>(&actor.act));
    kinora_resources r{sizeof(kinora_resources), 0, 1, 0, 0, 0, 0, 0, 0};
    table.resources(self, &r);
    if (chaos_.on_ready) chaos_.on_ready();
    Lock lock(mutex_);
    if (!actor.dead) send({{"is", "started"}, {"worker", actor.id}, {"resources", core::put_resources(r)}});
    for (;;) {
      actor.changed.wait(lock, [&] { return actor.stopped || actor.dead || !actor.calls.empty(); });
      if (actor.stopped || actor.dead) break;
      serve(actor, table, self, lock);
    }
    lock.unlock();
    table.destroy(self);
  }

  void serve(Actor& actor, const kinora_stage& table, void* self, Lock& lock) {
    const json head = std::move(actor.calls.front());
    actor.calls.pop_front();
    actor.call = head.at("call");
    actor.home = head.at("home");
    actor.stores = head.at("leaves").get<bool>() && !store_.empty() && !chaos_.strangers.contains(actor.node);
    const auto what = head.at("what").get<std::string>();
    actor.cancelled = false;
    actor.taken = actor.told = actor.event = 0;
    std::vector<core::Message> given = std::move(inputs_[actor.call]);
    inputs_.erase(actor.call);
    if (std::vector<uint64_t> gone = stores_.gone(given); !gone.empty()) {
      send({{"is", "lost"}, {"pieces", std::move(gone)}});
      return die(actor, "the bytes of its sample were lost", true);
    }
    Stores::Visit visit(stores_, actor.node);
    std::vector<Sample> inputs;
    for (const core::Message& one : given) inputs.push_back(visit.take(one));
    actor.key = inputs.empty() ? "" : std::string(inputs.front().key());
    if (!lives(actor, lock)) return;
    lock.unlock();
    testing::Run plain;
    Told to{*this, actor};
    const kinora_emit emit = table_of(to);
    std::vector<kinora_sample*> pointers;
    for (const Sample& sample : inputs) pointers.push_back(sample.get());
    const int32_t status =
        what == "finish"    ? table.finish(self, &emit, plain.get())
        : what == "process" ? table.process(self, pointers.front(), &emit, plain.get())
                            : table.process_batch(self, pointers.data(),
                                                  static_cast<uint32_t>(pointers.size()), &emit, plain.get());
    const std::string message = status == KINORA_OK ? "" : engines::last_message(status);
    inputs.clear();
    lock.lock();
    if (lives(actor, lock)) end(actor, status, message);
  }

  void end(const Actor& actor, int32_t status, const std::string& message) {
    send({{"is", "done"},
          {"worker", actor.id},
          {"call", actor.call},
          {"status", status},
          {"message", message},
          {"ended", false}});
  }

  struct Told {
    FakeBridge& bridge;
    Actor& actor;
  };

  // Waits until the engine has taken it, as a generator does.
  static int32_t tell(void* self, json head, kinora_sample* given = nullptr) {
    auto& [bridge, actor] = *static_cast<Told*>(self);
    std::optional<Sample> sample;
    if (given) sample = Sample::adopt(given);
    Lock lock(bridge.mutex_);
    if (actor.stores && head.at("what") == "emit") sample = bridge.stored(*sample, head);
    if (!actor.cancelled && bridge.lives(actor, lock)) {
      core::Message letter;
      letter.head = std::move(head);
      letter.head.update({{"is", "told"}, {"worker", actor.id}, {"call", actor.call}});
      if (sample)
        bridge.stores_.put(letter, *sample, actor.node, actor.home && letter.head["what"] == "emit");
      bridge.pass(letter);
      ++actor.told;
      actor.changed.wait(lock, [&] {
        return actor.taken == actor.told || actor.cancelled || actor.dead || actor.stopped || bridge.ends_;
      });
      if (actor.taken == actor.told) return KINORA_OK;
    }
    lock.unlock();
    return set_error(KINORA_ERROR_CANCELLED, "cancelled");
  }

  // As a node does: its files in a folder of its own, and what the record may need of it.
  Sample stored(const Sample& sample, json& head) {
    const std::string folder = store_ + "/" + std::to_string(number_) + "-" + std::to_string(++folders_);
    std::filesystem::create_directories(folder);
    Sample out(sample.key());
    json files = json::object();
    for (const auto& field : sample.fields()) {
      const std::string name = std::string(sample.key()) + "." + std::string(field.name);
      const std::string_view bytes(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
      std::ofstream(folder + "/" + name) << bytes;
      files[name] = bytes.size();
      if (field.name == "txt") out.set("txt", bytes);
    }
    head["stored"] = {{"folder", folder}, {"files", std::move(files)}};
    return out;
  }

  static kinora_emit table_of(Told& told) {
    return {sizeof(kinora_emit),
            0,
            &told,
            [](void* self, kinora_sample* s) {
              return tell(self, {{"what", "emit"}}, s);
            },
            [](void* self, kinora_sample* s, const char* rule, double score) {
              return tell(self, {{"what", "drop"}, {"rule", rule}, {"score", score}}, s);
            },
            [](void* self) {
              return tell(self, {{"what", "hold"}});
            },
            [](void* self, kinora_str key) {
              return tell(self, {{"what", "stored"}, {"key", view(key)}});
            },
            [](void* self, kinora_sample* s, const char* reason) {
              return tell(self, {{"what", "fail"}, {"reason", reason}}, s);
            },
            [](void* self, const kinora_str* keys, uint64_t n) {
              json names = json::array();
              for (uint64_t i = 0; i < n; ++i) names.push_back(view(keys[i]));
              return tell(self, {{"what", "made_of"}, {"keys", std::move(names)}});
            }};
  }

  std::deque<Act>& acts_;
  std::vector<double> cores_;
  const Chaos chaos_;
  const int number_;
  int there_ = -1;
  std::unique_ptr<core::Channel> wire_;
  Stores stores_;
  std::mutex mutex_;
  std::map<int64_t, std::unique_ptr<Actor>> actors_;
  std::map<uint64_t, std::vector<core::Message>> inputs_;
  std::vector<char> lost_;
  std::atomic<int> calls_{0};
  std::atomic<bool> ends_{false}, still_{false};
  bool opened_ = false;
  int starts_ = 0, folders_ = 0;
  std::string store_;  // for what leaves the pipeline; empty: nothing is stored
  std::thread reader_;
};

}  // namespace kinora::ray
