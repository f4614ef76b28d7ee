// Where the output of one rank of a launch goes: its log file, and for the rank that is shown also this
// program's own stdout and stderr.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace kinora {

class RankOutput {
 public:
  // Appends to `log`, after the line `headline`. Throws Error(KINORA_IO).
  RankOutput(std::filesystem::path log, const std::string& headline, bool shown);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;
  ~RankOutput();

  // Descriptors for the rank's stdout and stderr: the file, or, where the rank is shown, a pipe; a terminal
  // of its own where ours is one, so that its progress bar knows.
  int stdout_of_rank() const { return channels_[0].to_rank >= 0 ? channels_[0].to_rank : file_; }
  int stderr_of_rank() const { return channels_[1].to_rank >= 0 ? channels_[1].to_rank : file_; }
  // Once the rank has them.
  void started();
  // What can be read from a shown rank; -1: nothing, or no more.
  std::array<int, 2> readable() const { return {channels_[0].from_rank, channels_[1].from_rank}; }
  // Passes on what there is; closes a channel at its end.
  void pass_on(size_t channel);

  const std::filesystem::path& log() const { return log_; }
  // The last lines that the rank wrote, without the headline.
  std::string last_lines(int count) const;

 private:
  struct Channel {
    int from_rank = -1, to_rank = -1, shown_at = -1;
    std::string line;  // not ended yet
  };
  void open_channel(Channel&, int shown_at) const;
  void write_lines(Channel&, std::string_view text, bool ends);
  std::filesystem::path log_;
  int file_ = -1;
  uint64_t begin_ = 0;  // of this rank's output in the file
  std::array<Channel, 2> channels_;
};

}  // namespace kinora
