// The samples of a training whose encode job has a table of data: one thread decodes and encodes them ahead of the
// training step.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <variant>
#include <vector>

#include "plugins/jobs/training/live/live_windows.hpp"
#include "plugins/jobs/training/samples.hpp"

namespace kinora::core {

// Every window is made by the same thread, so that the numbers do not depend on what was asked for ahead.
class LiveSamples final : public TrainingSamples {
 public:
  LiveSamples(const JobView& encode, const TrainOptions& options, at::Device device);
  ~LiveSamples() override;

  const LatentFacts& facts() const override { return facts_; }
  LatentItem drawn(int64_t n) override;
  void prepare(const std::vector<int64_t>& numbers) override;
  bool are_of_many_sizes() const override { return many_sizes_; }
  std::vector<int64_t> positions(int64_t first, int64_t count) override;
  size_t validation_size() const override { return validation_.size(); }
  LatentItem validation(size_t i) override;
  std::optional<double> take_wait() override { return std::exchange(waited_, 0.0); }
  std::optional<int64_t> take_bytes() override;
  std::set<std::string> failed() const override;
  nlohmann::json summary() const override;

 private:
  enum class What { train, validation, positions };
  struct Wanted {
    uint64_t slot;
    What what;
    int64_t count = 1;  // slots whose positions are asked for
    auto operator<=>(const Wanted&) const = default;
  };
  using Made = std::variant<LatentItem, std::vector<int64_t>, std::exception_ptr>;

  void work(const JobView& encode, const TrainOptions& options, at::Device device);
  // Throws Error(KINORA_ERROR_INVALID) if the encode job measured the scale on data of another digest.
  static void require_same(const JobView& encode, const std::string& digest);
  void find_validation(LiveWindows& windows, const TrainOptions& options);
  // Whether training, or the validation, takes clips with this key.
  bool accepts(bool of_validation, const std::string& key) const;
  Made make(LiveWindows& windows, const Wanted& wanted) const;
  Made get(const Wanted& wanted);

  LatentFacts facts_;
  double share_;  // of the clips that are held out
  bool many_sizes_;
  std::vector<uint64_t> validation_;   // slots of its clips, each another clip
  std::map<size_t, LatentItem> kept_;  // of the validation
  uint64_t pass_ = 0;
  double waited_ = 0;  // seconds
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Wanted> wanted_;
  std::optional<Wanted> making_;
  std::map<Wanted, Made> made_;  // and not fetched
  std::set<std::string> failed_;
  int64_t bytes_ = 0;  // read since take_bytes()
  bool ends_ = false, is_open_ = false;
  std::exception_ptr broken_;  // why the thread ended
  std::thread thread_;         // last: it uses the others
};

}  // namespace kinora::core
