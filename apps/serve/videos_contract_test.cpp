// Clients of a server may rely on these, in random orders of their requests.
#include <map>
#include <random>

#include "apps/serve/videos_testing.hpp"

namespace kinora::serve {
namespace videos_contract_test {

namespace fs = std::filesystem;
using nlohmann::json;

class VideosContract : public VideosTest {
 protected:
  // One client's video, from its creation to its end.
  void live_of_a_video(Videos& videos, std::mt19937_64& random) {
    const bool waits = random() % 8 == 0;
    const std::string prompt = waits ? "waits" : "p" + std::to_string(random() % 1000);
    const std::string id = create(videos, prompt);
    Seen seen{.viewer = {.id = id}};
    for (auto left = random() % 8; left > 0; --left) look(videos, id, prompt, random() % 4, seen);
    if (!waits && random() % 2) {
      EXPECT_TRUE(becomes(videos, id, "completed"));
      look(videos, id, prompt, 1, seen);
      EXPECT_TRUE(seen.has_content);
    }
    EXPECT_EQ(videos.remove(id).at("deleted"), true);
    EXPECT_EQ(refusal([&] { videos.get(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos.content(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos.remove(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos.next(seen.viewer); }), "404 not_found");
  }

 private:
  struct Seen {
    int rank = 0;
    int64_t progress = 0;
    bool has_content = false;
    Videos::Viewer viewer{};
    std::string bytes{};
  };

  static void look(const Videos& videos, const std::string& id, const std::string& prompt, uint64_t how,
                   Seen& seen) {
    static const std::map<std::string, int> kRanks{{"queued", 0}, {"in_progress", 1}, {"completed", 2}};
    if (how == 0) {
      const json now = videos.get(id);
      const int rank = kRanks.at(now.at("status"));
      const int64_t progress = now.at("progress");
      EXPECT_GE(rank, seen.has_content ? 2 : seen.rank);
      EXPECT_GE(progress, seen.progress);
      EXPECT_EQ(progress == 100, rank == 2);
      seen.rank = rank;
      seen.progress = progress;
    } else if (how == 1) {
      fs::path file;
      const std::string no = refusal([&] { file = videos.content(id); });
      seen.has_content = seen.has_content || seen.rank == 2;
      EXPECT_EQ(no, seen.has_content || no.empty() ? "" : "409 not_ready");
      if (no.empty()) {
        EXPECT_EQ(bytes_of(file), "video " + id + " of " + prompt);
      }
      seen.has_content = no.empty();
    } else if (how == 2) {
      const auto next = videos.next(seen.viewer);
      seen.bytes += next.value_or("");
      // The viewer has what grew, or came late and has the finished file.
      const std::string grown = "a part and the rest", file = "video " + id + " of " + prompt;
      EXPECT_TRUE(grown.starts_with(seen.bytes) || file.starts_with(seen.bytes)) << seen.bytes;
      if (next == "") {
        EXPECT_TRUE(seen.bytes == grown || seen.bytes == file) << seen.bytes;
      }
    } else {
      const json page = videos.list("", 100, false);
      int found = 0;
      for (const auto& one : page.at("data")) found += one.at("id") == id;
      EXPECT_EQ(found, 1);
      EXPECT_FALSE(page.at("has_more"));
    }
  }
};

TEST_F(VideosContract, HoldsForThousandRandomSequencesOfEightClients) {
  const auto videos = serve();
  std::vector<std::thread> clients;
  for (uint64_t client = 0; client < 8; ++client)
    clients.emplace_back([&, client] {
      std::mt19937_64 random(client);
      for (int i = 0; i < 125 && !HasFailure(); ++i) try {
          live_of_a_video(*videos, random);
        } catch (const std::exception& e) {
          ADD_FAILURE() << e.what();
        }
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(videos->list("", 1, true).at("data"), json::array());
  EXPECT_TRUE(eventually([&] { return videos->health().at("in_progress") == 0; }));
  EXPECT_TRUE(eventually([&] { return fs::is_empty(folder_ / "videos"); }));
  EXPECT_THAT(videos->metrics(), testing::HasSubstr("kinora_serve_accepted_total 1000\n"));
}

}  // namespace videos_contract_test
}  // namespace kinora::serve
