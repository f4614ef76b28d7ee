// Tests who can reach the store of a world, and who can join it.
#include "plugins/collectives/c10d/listener.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora::test {
namespace {

bool can_connect(const char* address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address, &to.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool done = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  ::close(fd);
  return done;
}

TEST(GlooStore, ListensOnTheAddressOfTheRanksAlone) {
  on_ranks(2, [](const Rank& me) {
    const World w(me, 20000, me.tcp());
    me.meet("joined");
    EXPECT_TRUE(can_connect("127.0.0.1", me.port));
    EXPECT_FALSE(can_connect("127.0.0.2", me.port)) << "another interface offers the store";
    me.meet("tried");
  });
}

// Local addresses of this process's TCP sockets, as /proc/net/tcp writes them: "0100007F:1F90".
std::vector<std::string> listening_addresses() {
  std::set<std::string> mine;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with("socket:[")) mine.insert(to.substr(8, to.size() - 9));
  }
  std::vector<std::string> out;
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
      if (all.size() > 9 && all[3] == "0A" && mine.contains(all[9])) out.push_back(all[1]);
    }
  }
  return out;
}

TEST(GlooStore, RanksOfOneMachineListenOnLoopbackAlone) {
  on_ranks(2, [](const Rank& me) {
    const World w(me, 20000, me.tcp());
    auto owner = w.mesh(me, {{"dp", 2}});
    Mesh<at::Tensor>(owner.abi()).group("dp").sum(at::ones({1}));
    const auto all = listening_addresses();
    EXPECT_FALSE(all.empty());
    for (const auto& address : all) EXPECT_TRUE(address.find("7F:") == 6) << address;
    me.meet("looked");
  });
}

TEST(GlooStore, ARankListensOnTheInterfaceTowardsTheOthers) {
  for (const char* host : {"localhost", "127.0.0.1", "127.3.2.1", "::1"})
    EXPECT_EQ(own_address(host, 29500), "127.0.0.1") << host;
  const std::string towards = own_address("203.0.113.7", 29500);  // empty: by name, or no way there
  EXPECT_FALSE(towards.starts_with("127.")) << towards;
}

TEST(GlooStore, AnAddressOfAnotherMachineLeavesTheChoiceToTheStore) {
  EXPECT_EQ(bound_socket("203.0.113.7", 1), std::nullopt);
  EXPECT_EQ(bound_socket("no-such-host.invalid", 1), std::nullopt);
}

TEST(GlooStore, RanksWithAnotherSecretDoNotMeet) {
  on_ranks(2, [](const Rank& me) {
    setenv("KINORA_SECRET", "the same secret of both", 1);
    { const World w(me, 20000, me.tcp()); }
    me.meet("joined");
  });
  on_ranks(2, [](const Rank& me) {
    setenv("KINORA_SECRET", me.rank == 0 ? "the secret of rank 0" : "one that was guessed", 1);
    const Failed f = failure_of([&] { World(me, 1500, me.tcp()); });
    me.meet("tried");
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT) << f.message;
    EXPECT_NE(f.message.find("KINORA_SECRET"), std::string::npos) << f.message;
  });
}

TEST(GlooStore, ASecretOfAFileIsPrivateAndLong) {
  on_ranks(1, [](const Rank& me) {
    const std::string file = me.folder + "/secret";
    std::ofstream(file) << "0123456789abcdef\n";
    setenv("KINORA_SECRET_FILE", file.c_str(), 1);
    const auto refused = [&] {
      return failure_of([&] { World({0, 2, me.folder, me.port}, 300, me.tcp()); }).message;
    };
    std::filesystem::permissions(file, std::filesystem::perms(0640));
    EXPECT_NE(refused().find("run: chmod 600 " + file), std::string::npos);
    std::filesystem::permissions(file, std::filesystem::perms(0600));
    std::ofstream(file) << "short\n";
    EXPECT_NE(refused().find("the secret has 5 characters"), std::string::npos);
    std::ofstream(file) << "0123456789abcdef\n";
    EXPECT_NE(refused().find("did not join"), std::string::npos);
  });
}

}  // namespace
}  // namespace kinora::test
