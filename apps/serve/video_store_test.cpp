#include "apps/serve/video_store.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>
#include <tuple>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace kinora::serve {
namespace video_store_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

auto all_of(const StoredVideo& v) {
  return std::make_tuple(v.id, v.model, std::string(name_of(v.status)), v.created, v.completed, v.expires,
                         v.fields.dump(), v.error.dump(), v.remixed_from, v.starts);
}

std::vector<std::string> ids_of(const std::vector<StoredVideo>& videos) {
  std::vector<std::string> out;
  for (const auto& v : videos) out.push_back(v.id);
  return out;
}

StoredVideo video(const std::string& id, const std::string& model = "m") {
  return {.id = id, .model = model, .created = 1, .fields = {{"prompt", id}}, .error = nullptr};
}

class VideoStoreTest : public testing::Test {
 protected:
  VideoStoreTest() {
    std::string name = (fs::temp_directory_path() / "kinora-store-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~VideoStoreTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// A store, and a model of it in memory that does the same.
class Twins {
 public:
  Twins(const fs::path& folder, uint64_t seed) : folder_(folder), random_(seed) { open(); }

  void step() {
    switch (random_() % 11) {
      case 0:
      case 1:
      case 2:
        return add();
      case 3:
      case 4:
        return begin();
      case 5:
      case 6:
        return end();
      case 7:
        return put_back();
      case 8:
        return remove();
      case 9:
        return look();
      default:
        return page();
    }
  }
  void reopen() {
    store_.reset();
    open();
    say_cut(rows_);
    compare(*store_, rows_);
  }
  // As an end by kill -9 leaves it: the files as they are, while the store goes on.
  void compare_with_copy() const {
    const fs::path copy = folder_ / "copy";
    fs::create_directories(copy);
    for (const auto& file : fs::directory_iterator(folder_))
      if (file.is_regular_file()) fs::copy_file(file.path(), copy / file.path().filename());
    auto rows = rows_;
    say_cut(rows);
    compare(VideoStore(copy / "videos.sqlite"), rows);
    fs::remove_all(copy);
  }
  size_t most() const { return most_; }

 private:
  struct Row {
    StoredVideo video;
    std::string key;
  };
  void open() { store_.emplace(folder_ / "videos.sqlite"); }
  static void say_cut(std::vector<Row>& rows) {
    for (auto& row : rows)
      if (row.video.status == Status::in_progress) {
        row.video.status = Status::queued;
        --row.video.starts;
      }
  }
  static void compare(const VideoStore& store, const std::vector<Row>& rows) {
    std::vector<std::string> ids;
    int64_t queued = 0;
    for (const auto& row : rows) {
      ids.push_back(row.video.id);
      queued += row.video.status == Status::queued;
      const auto found = store.find(row.video.id);
      ASSERT_TRUE(found) << row.video.id;
      ASSERT_EQ(all_of(*found), all_of(row.video));
      if (!row.key.empty()) {
        ASSERT_EQ(store.id_of_key(row.key), row.video.id);
      }
    }
    bool more = true;
    ASSERT_EQ(ids_of(store.page("", 1'000'000, true, more)), ids);
    ASSERT_FALSE(more);
    ASSERT_EQ(store.queued(), queued);
    auto stored = store.ids();
    std::sort(stored.begin(), stored.end());
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(stored, ids);
  }

  Row* any() { return rows_.empty() ? nullptr : &rows_[random_() % rows_.size()]; }
  Row* any_in_progress() {
    std::vector<Row*> all;
    for (auto& row : rows_)
      if (row.video.status == Status::in_progress) all.push_back(&row);
    return all.empty() ? nullptr : all[random_() % all.size()];
  }

  void add() {
    // Not in the order of their creation.
    StoredVideo v = video(fmt::format("video_{:016x}", random_()), random_() % 2 ? "m" : "n");
    v.created = ++now_;
    v.remixed_from = random_() % 3 ? "" : "video_x";
    v.fields = {{"prompt", "it's \"" + std::to_string(now_) + "\"; \xc3\xa9"}, {"seed", now_}};
    if (random_() % 3) v.fields["alike"] = random_() % 2 ? "[1]" : "[\"it's\"]";
    const std::string key = random_() % 2 ? "" : "key" + std::to_string(random_() % 60);
    const auto known = std::find_if(rows_.begin(), rows_.end(),
                                    [&](const Row& row) { return !key.empty() && row.key == key; });
    ASSERT_EQ(store_->add(v, key), known == rows_.end() ? v.id : known->video.id);
    if (known == rows_.end()) rows_.push_back({v, key});
    if (rows_.size() > most_) most_ = rows_.size();
  }
  void begin() {
    const std::string model = random_() % 2 ? "m" : "n", alike = random_() % 2 ? "" : "[\"it's\"]";
    const auto next = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
      const bool is_alike = row.video.starts == 0 && row.video.fields.value("alike", "") == alike;
      return row.video.status == Status::queued && row.video.model == model && (alike.empty() || is_alike);
    });
    const auto found = store_->begin_next(model, alike);
    ASSERT_EQ(found.has_value(), next != rows_.end());
    if (!found) return;
    next->video.status = Status::in_progress;
    ++next->video.starts;
    ASSERT_EQ(all_of(*found), all_of(next->video));
  }
  void end() {
    Row* row = any_in_progress();
    if (!row) return;
    auto& v = row->video;
    v.completed = ++now_;
    v.expires = now_ + static_cast<int64_t>(random_() % 100);
    if (random_() % 2) {
      v.status = Status::completed;
      v.fields["frames"] = 17;
      store_->complete(v.id, v.completed, v.expires, v.fields);
    } else {
      v.status = Status::failed;
      v.error = {{"code", "x"}, {"message", "it's"}};
      store_->fail(v.id, v.completed, v.expires, v.error);
    }
  }
  void put_back() {  // of any: one that is not in progress stays as it is
    Row* row = any();
    if (!row) return;
    store_->requeue(row->video.id);
    if (row->video.status == Status::in_progress) row->video.status = Status::queued;
  }
  void remove() {
    ASSERT_FALSE(store_->remove("video_none"));
    const auto* row = any();
    if (!row) return;
    ASSERT_TRUE(store_->remove(row->video.id));
    ASSERT_FALSE(store_->remove(row->video.id));
    gone_ = row->video.id;
    rows_.erase(rows_.begin() + (row - rows_.data()));
    ASSERT_FALSE(store_->find(gone_));
  }
  void look() {
    compare(*store_, rows_);
    ASSERT_EQ(store_->id_of_key(""), "");
    std::set<std::string> expired;
    for (const auto& row : rows_)
      if (row.video.expires > 0 && row.video.expires <= now_) expired.insert(row.video.id);
    const auto said = store_->expired(now_);
    ASSERT_EQ(std::set<std::string>(said.begin(), said.end()), expired);
    ASSERT_EQ(said.size(), expired.size());
  }
  void page() {
    const bool ascending = random_() % 2;
    const auto limit = 1 + random_() % 7;
    const Row* from = random_() % 4 ? any() : nullptr;
    auto order = rows_;
    if (!ascending) std::reverse(order.begin(), order.end());
    const auto at = from ? std::find_if(order.begin(), order.end(),
                                        [&](const Row& row) { return row.video.id == from->video.id; }) +
                               1
                         : order.begin();
    std::vector<std::string> wanted;
    for (auto next = at; next != order.end() && wanted.size() < limit; ++next)
      wanted.push_back(next->video.id);
    bool more = false;
    ASSERT_EQ(ids_of(store_->page(from ? from->video.id : "", static_cast<int64_t>(limit), ascending, more)),
              wanted);
    ASSERT_EQ(more, static_cast<size_t>(order.end() - at) > limit);
    if (gone_.empty()) return;
    more = true;
    ASSERT_THAT(store_->page(gone_, 10, ascending, more), IsEmpty());
    ASSERT_FALSE(more);
  }

  const fs::path folder_;
  std::mt19937_64 random_;
  std::optional<VideoStore> store_;
  std::vector<Row> rows_;  // the oldest first
  std::string gone_;
  int64_t now_ = 1000;
  size_t most_ = 0;
};

TEST_F(VideoStoreTest, EqualsAModelInMemoryThroughEndsAtAnyMoment) {
  Twins twins(folder_, 1);
  for (int i = 1; i <= 1000; ++i) {
    twins.step();
    if (i % 40 == 0) twins.compare_with_copy();
    if (i % 97 == 0) twins.reopen();
    if (HasFatalFailure()) FAIL() << "step " << i;
  }
  EXPECT_GT(twins.most(), 20U);
}

TEST_F(VideoStoreTest, KeepsTheOrderOfWhatIsPutBack) {
  VideoStore store(folder_ / "videos.sqlite");
  for (const char* id : {"c", "a", "b"}) store.add(video(id), "");
  EXPECT_EQ(store.begin_next("m")->id, "c");
  EXPECT_EQ(store.begin_next("m")->id, "a");
  EXPECT_FALSE(store.begin_next("other"));
  store.requeue("c");
  EXPECT_EQ(store.begin_next("m")->starts, 2);
  bool more = false;
  EXPECT_THAT(ids_of(store.page("", 2, false, more)), ElementsAre("b", "a"));
  EXPECT_TRUE(more);
  EXPECT_THAT(ids_of(store.page("a", 2, false, more)), ElementsAre("c"));
  EXPECT_FALSE(more);
}

// A process adds videos and is killed: each one that it was told of is there, and once.
TEST_F(VideoStoreTest, HasEveryVideoThatAKilledProcessAccepted) {
  std::mt19937_64 random(1);
  std::set<std::string> accepted;
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      VideoStore store(folder_ / "videos.sqlite");
      for (int i = 0;; ++i) {
        const std::string id =
            store.add(video(fmt::format("v{:02}_{:05}", round, i)), fmt::format("{}-{}", round, i));
        if (write(ends[1], id.data(), 9) != 9) _exit(1);
        if (i % 3 == 0) store.begin_next("m");
      }
    }
    close(ends[1]);
    ASSERT_GT(child, 0);
    char id[9];
    const auto least = random() % 30;
    for (size_t i = 0; i <= least && read(ends[0], id, sizeof id) == sizeof id; ++i)
      accepted.insert(std::string(id, sizeof id));
    usleep(static_cast<useconds_t>(random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(ends[0], id, sizeof id) == sizeof id) accepted.insert(std::string(id, sizeof id));
    close(ends[0]);
    const VideoStore store(folder_ / "videos.sqlite");
    const auto ids = store.ids();
    const std::set<std::string> all(ids.begin(), ids.end());
    EXPECT_EQ(all.size(), ids.size());
    EXPECT_TRUE(std::includes(all.begin(), all.end(), accepted.begin(), accepted.end()));
    EXPECT_LE(all.size(),
              accepted.size() + static_cast<size_t>(round) + 1);  // one each that it had not told yet
    EXPECT_EQ(store.queued(), static_cast<int64_t>(all.size()));
  }
  EXPECT_GT(accepted.size(), 10U);
}

}  // namespace video_store_test
}  // namespace kinora::serve
