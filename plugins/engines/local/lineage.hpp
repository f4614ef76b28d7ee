// Records what each sample was made of, and its one outcome.
//
// The outcome of a sample is reported after those of everything made of it, so that an interrupted run repeats what it had not
// finished. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <condition_variable>
#include <deque>

#include "track.hpp"

namespace kinora::local {

class Lineage {
 public:
  // `reportable` is notified when an outcome can be reported.
  Lineage(Ledger& ledger, std::condition_variable& reportable) : ledger_(ledger), reportable_(reportable) {}

  // A new sample that was made of the parents. None: of nothing that could be named, in finish().
  static std::shared_ptr<Track> child(const Tracks& parents, std::string_view key);
  // While a stage works on a sample it may make more of it, and its outcome waits.
  static void begin_work(Track& track) { ++track.open; }
  void end_work(const std::shared_ptr<Track>& track);
  // The sample's outcome. weight: counted in the ledger until it is reported.
  void end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight);

  // The next outcome to report, or null; told() follows when it has been.
  std::shared_ptr<Track> next();
  void told(const Track& track);
  size_t unreported() const { return ends_.size(); }
  bool all_told() const { return ends_.empty() && !telling_; }

 private:
  void settle(std::shared_ptr<Track> track);

  Ledger& ledger_;
  std::condition_variable& reportable_;
  std::deque<std::shared_ptr<Track>> ends_;
  bool telling_ = false;
};

}  // namespace kinora::local
