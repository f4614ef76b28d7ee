// The nodes of a cluster: which are there, which leave or are lost, and what that means for samples.
#include <algorithm>

#include "kinora/stage.hpp"
#include "plugins/engines/common/coders.hpp"
#include "plugins/engines/ray/cluster.hpp"

namespace kinora::ray {
namespace {

// Seconds before a node's end at which what works there is given up.
constexpr double kBeforeEnd = 5;

// Bytes of samples for an object store of this size: it also has what is being made or moved.
uint64_t room_in(uint64_t store) { return std::max<uint64_t>(1, store / 13 * 10); }

}  // namespace

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

void Cluster::hear_of_node(const nlohmann::json& head) {
  const auto id = head.at("node").get<std::string>();
  const auto state = head.at("state").get<std::string>();
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.id == id; });
  if (state == "ready") {
    const double gpus = head.at("gpus");
    const auto each = engines::coders_of(head.value("model", ""));
    if (at == nodes_.end())
      add({id,
           {head.at("cores"), gpus, head.at("memory"), head.value("nvdec", gpus * each.nvdec),
            head.value("nvenc", gpus * each.nvenc),
            head.value("address", "node") + "-" + id.substr(0, 6),  // an address may have several nodes
            room_in(head.at("store"))}});
    return;
  }
  if (at == nodes_.end()) return;
  const auto node = static_cast<size_t>(at - nodes_.begin());
  if (!at->lost) leave(node, head);
  if (state == "lost") lose_pieces_on(node);
}

void Cluster::leave(size_t node, const nlohmann::json& head) {
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

void Cluster::correct(size_t node, double cores) {
  if (runner_ && !nodes_[node].lost) runner_->correct_node(node, cores);
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

}  // namespace kinora::ray
