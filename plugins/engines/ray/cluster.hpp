// The nodes of a Ray cluster as an executor: instances of stages are in processes there, which the bridge starts and
// calls. The bytes of samples stay there: this process has their small fields, and numbers of the rest. Stages that
// keep state over all samples are in this process.
//
// A bridge that ends takes all nodes with it, and a new one brings others. What needs a node while there is none
// waits; the run ends if that takes longer than Limits::wait.
#pragma once
#include <map>
#include <string>

#include "plugins/engines/common/isolation.hpp"
#include "plugins/engines/common/runner.hpp"
#include "plugins/engines/common/threads.hpp"
#include "plugins/engines/ray/worker.hpp"

namespace kinora::ray {

class Cluster final : public engines::Threads {
 public:
  using Connect = std::function<Bridge()>;
  // connect: starts a bridge; may throw Error. open: the first letter to each, without `is`.
  Cluster(Connect connect, const Run& run, const Limits& limits, nlohmann::json open);
  ~Cluster() override;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // [owner-thread] What the nodes have that are ready; the one with most GPUs, then cores, is first. Throws Error if
  // there is none within Limits::wait.
  std::vector<engines::Tokens> nodes();
  // [owner-thread] From now on `runner` hears of lost nodes; null: of nothing.
  void attend(engines::Runner* runner);
  // [owner-thread] Does what was posted, and nothing more.
  void close();

  engines::FirstInstance first(const kinora_stage_spec& spec) override;
  void start(const engines::StageState& stage, const engines::Slot& slot, Started started) override;

 private:
  class Remote;
  struct Node {
    std::string id;  // empty: of a bridge that has ended
    engines::Tokens has;
    bool lost = false;                    // or about to be: nothing starts there
    bool gone = false;                    // and so have the pieces there
    std::optional<engines::Time> ends{};  // what works there at that time is lost
  };
  // A worker that is being started.
  struct Starting {
    std::shared_ptr<Worker> worker;
    std::string stage;
    std::vector<size_t> devices;
    engines::Time begun;
    double cores = 0;                      // that it takes while it works
    bool may_lack = false;                 // the stage has others, so it need not be there
    bool placed = false;                   // its process has begun
    std::optional<engines::Time> since{};  // it waits for a node
    // Receives the resources, or the reason why there is no instance; neither: the cluster cannot be used any more.
    std::function<void(const std::shared_ptr<Worker>&, const nlohmann::json* resources, const Error* why)>
        over;
  };
  using Lock = std::unique_lock<std::mutex>;
  static constexpr int kLook = 100;  // milliseconds between two looks

  std::optional<kinora_resources> start_first(const kinora_stage_spec& spec,
                                              std::unique_ptr<engines::Instance>& instance);
  // The Starting without its worker, stage and begin.
  std::shared_ptr<Worker> start(const kinora_stage_spec& spec, size_t node, Starting starting);
  void stop(const Worker& worker);
  bool cancelled() const;

  // The reader's thread. All but the first three under the lock.
  void read();
  std::shared_ptr<const Wire> connected();
  void replace_bridge();
  void hear(Letter letter);
  void hear_of_node(const nlohmann::json& head);
  void leave(size_t node, const nlohmann::json& head);
  void add(Node node);
  void lose(size_t node);
  void lose_pieces_on(size_t node);
  void lose_pieces(std::function<bool(const engines::RemotePiece&)> is_lost);
  void lose_bridge(const std::string& why);
  bool has_node(const std::vector<size_t>& devices = {}) const;
  void placed(const nlohmann::json& head);
  void started(const nlohmann::json& head);
  void died(const nlohmann::json& head);
  void cut_off(const std::string& why);
  void look();
  void end_what_waits(engines::Time now);
  void end_late_starts(engines::Time now);
  void correct(size_t node, double cores);
  double longest_silence() const;
  std::shared_ptr<Worker> new_worker(size_t node);
  void turn_away(Starting starting);
  void not_started(Starting starting, Error why);
  void refuse(Starting starting);
  void later(std::function<void()> work);

  const Connect connect_;
  const kinora_run& run_;
  const Limits limits_;
  const nlohmann::json open_;
  const engines::Isolation isolation_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Bridge bridge_;                       // without a wire: there is none now
  std::string bridge_ended_;            // why the last one did
  std::optional<engines::Time> heard_;  // the last letter of this bridge
  engines::Time connects_{};            // not before
  double pause_ = 0;                    // seconds from the next loss to an attempt
  std::vector<Node> nodes_;
  size_t given_ = 0;  // nodes that nodes() has returned
  bool opened_ = false, closed_ = false, ends_ = false;
  std::string cut_off_;  // why the cluster cannot be used any more
  std::string said_;     // what the bridge said last
  engines::Runner* runner_ = nullptr;
  int64_t last_ = 0;
  std::map<int64_t, std::shared_ptr<Worker>> workers_;
  std::map<int64_t, Starting> starting_;
  std::vector<Starting> waiting_;  // for a node
  std::thread reader_;
};

// Runs a pipeline there. Throws Error.
void run_on(Cluster& cluster, const kinora_pipeline& pipeline, const Run& run,
            const engines::Settings& settings);

}  // namespace kinora::ray
