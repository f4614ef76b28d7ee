// The nodes of a Ray cluster as an executor: instances of stages are in processes there, which the bridge starts and
// calls. Samples travel through this process, so its memory and network bound the run.
#pragma once
#include <map>
#include <string>

#include "plugins/engines/common/runner.hpp"
#include "plugins/engines/common/threads.hpp"
#include "plugins/engines/ray/worker.hpp"

namespace kinora::ray {

class Cluster final : public engines::Threads {
 public:
  // open: the first letter, without `is`.
  Cluster(std::unique_ptr<Wire> wire, const Run& run, const Limits& limits, nlohmann::json open);
  ~Cluster() override;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // [owner-thread] What the nodes have that are ready; the one with most GPUs, then cores, is first. Throws Error if
  // there is none within so many seconds.
  std::vector<engines::Tokens> nodes(double seconds);
  // [owner-thread] From now on `runner` hears of lost nodes; null: of nothing.
  void attend(engines::Runner* runner);
  // [owner-thread] Does what was posted, and nothing more.
  void close();

  engines::FirstInstance first(const kinora_stage_spec& spec) override;
  void start(const engines::StageState& stage, const engines::Slot& slot, Started started) override;

 private:
  class Remote;
  struct Node {
    std::string id;
    engines::Tokens has;
    bool lost = false;  // or about to be: nothing starts there
  };
  // A worker that is being started.
  struct Starting {
    std::shared_ptr<Worker> worker;
    std::string stage;
    // Receives the resources, or the reason why there is no instance; neither: the cluster cannot be used any more.
    std::function<void(const std::shared_ptr<Worker>&, const nlohmann::json* resources, const Error* why)>
        over;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::shared_ptr<Worker> start(const kinora_stage_spec& spec, size_t node,
                                const std::vector<size_t>& devices, decltype(Starting::over) over);
  void stop(const Worker& worker);
  bool cancelled() const;

  // The reader's thread. All but read() under the lock.
  void read();
  void hear(Letter letter);
  void hear_of_node(const nlohmann::json& head);
  void add(Node node);
  void lose(size_t node);
  void started(const nlohmann::json& head);
  void died(const nlohmann::json& head);
  void cut_off(const std::string& why);
  void look();
  void not_started(Starting starting, Error why);
  void later(std::function<void()> work);

  const std::unique_ptr<Wire> wire_;
  const kinora_run& run_;
  const Limits limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Node> nodes_;
  size_t given_ = 0;  // nodes that nodes() has returned
  bool opened_ = false, closed_ = false, ends_ = false;
  std::string cut_off_;  // why the cluster cannot be used any more
  engines::Runner* runner_ = nullptr;
  int64_t last_ = 0;
  std::map<int64_t, std::shared_ptr<Worker>> workers_;
  std::map<int64_t, Starting> starting_;
  std::thread reader_;
};

// Runs a pipeline there. Throws Error.
void run_on(Cluster& cluster, const kinora_pipeline& pipeline, const Run& run,
            const engines::Settings& settings);

}  // namespace kinora::ray
