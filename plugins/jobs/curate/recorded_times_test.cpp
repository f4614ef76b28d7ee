// A finished job's inputs that were touched are those that it has read; changed ones are not.
#include "plugins/jobs/curate/recorded_times.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"

namespace kinora::core::recorded_times_test {
namespace {

namespace fs = std::filesystem;

class RecordedTimes : public testing::Test {
 protected:
  RecordedTimes() : out_(fs::path(testing::TempDir()) / ("times-" + std::to_string(getpid()))) {
    fs::create_directories(out_ / "clips/data");
    write("bytes");
    std::vector<Input> inputs = listed();
    RecordOf record(out_ / "clips", inputs, {.base = "x"});
    record.set_content(inputs[0], sha256("bytes"));
  }
  ~RecordedTimes() override { fs::remove_all(out_); }

  void write(const std::string& text) const { std::ofstream(video()) << text; }
  void end(const char* status) const {
    std::ofstream(out_ / "clips/summary.json") << R"({"status": ")" << status << "\"}";
  }
  void touch() const {
    fs::last_write_time(video(), fs::file_time_type::clock::now() + std::chrono::hours(1));
  }
  fs::path video() const { return out_ / "a.mp4"; }
  std::vector<Input> listed() const {
    const FoundFile file = found_file(video().string());
    Input input;
    input.url = video().string();
    input.size = file.size;
    input.modified = file.modified;
    return {input};
  }
  std::string listed_identity() const { return identity_of(RowsOf(listed()).rows); }
  // The identity of the inputs in a run of today.
  std::string identity() const {
    RowsOf inputs(listed());
    take_recorded_times(out_, "clips", inputs.rows);
    return identity_of(inputs.rows);
  }
  const fs::path out_;
};

TEST_F(RecordedTimes, AreThoseOfTouchedInputsWithTheBytesOfThen) {
  end("done");
  const std::string before = identity();
  EXPECT_EQ(before, listed_identity());
  touch();
  EXPECT_NE(listed_identity(), before);
  EXPECT_EQ(identity(), before);
  fs::copy_file(video(), out_ / "copy");
  fs::rename(out_ / "copy", video());
  EXPECT_EQ(identity(), before) << "a copy";
}

TEST_F(RecordedTimes, AreNotThoseOfOtherBytesOfTheSameLength) {
  end("done");
  const std::string before = identity();
  write("other");
  touch();
  EXPECT_EQ(identity(), listed_identity());
  EXPECT_NE(identity(), before);
}

TEST_F(RecordedTimes, AreThoseOfAFinishedJob) {
  const std::string before = listed_identity();
  touch();
  EXPECT_NE(identity(), before) << "no summary.json";
  end("failed");
  EXPECT_NE(identity(), before);
  end("done");
  fs::remove(out_ / "clips/record.db");
  EXPECT_NE(identity(), before) << "no record";
}

}  // namespace
}  // namespace kinora::core::recorded_times_test
