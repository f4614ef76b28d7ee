// The bridge of a cluster: another one where it ends, and what its letters mean.
#include <algorithm>
#include <set>

#include "plugins/engines/ray/cluster.hpp"

namespace kinora::ray {
namespace {

using nlohmann::json;

// Seconds between two attempts to start a bridge; each is twice as long as the one before.
constexpr double kFirstPause = 0.5, kLastPause = 30;
// Seconds: a bridge that says nothing for longer stands still.
constexpr double kShortestSilence = 5, kLongestSilence = 60;

}  // namespace

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
    } else if (is == "placed") {
      placed(head);
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

}  // namespace kinora::ray
