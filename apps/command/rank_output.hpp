// Destination of the output of one rank: its log file, and for the displayed rank also this
// program's own stdout and stderr.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace kinora {

class RankOutput {
 public:
  // Appends to `log`, after the line `headline`. Throws Error(KINORA_ERROR_IO).
  RankOutput(std::filesystem::path log, const std::string& headline, bool shown);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;
  ~RankOutput();

  // Descriptors for the rank's stdout and stderr: the file, or a pipe if the rank is displayed. The pipe is a
  // terminal if ours is one, so that the rank draws its progress bar.
  int stdout_of_rank() const { return channels_[0].to_rank >= 0 ? channels_[0].to_rank : file_; }
  int stderr_of_rank() const { return channels_[1].to_rank >= 0 ? channels_[1].to_rank : file_; }
  // Call after the rank has inherited the descriptors.
  void started();
  // Descriptors of a displayed rank to read from; -1: none, or closed.
  std::array<int, 2> readable() const { return {channels_[0].from_rank, channels_[1].from_rank}; }
  // Forwards the available output; closes a channel at its end.
  void pass_on(size_t channel);

  const std::filesystem::path& log() const { return log_; }
  // The last lines that the rank wrote, without the headline.
  std::string last_lines(int count) const;

 private:
  struct Channel {
    int from_rank = -1, to_rank = -1, shown_at = -1;
    std::string line;  // line without its end so far
  };
  void open_channel(Channel&, int shown_at) const;
  void write_lines(Channel&, std::string_view text, bool ends);
  std::filesystem::path log_;
  int file_ = -1;
  uint64_t begin_ = 0;  // of this rank's output in the file
  std::array<Channel, 2> channels_;
};

}  // namespace kinora
