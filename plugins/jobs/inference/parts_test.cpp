#include "plugins/jobs/inference/parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using nlohmann::json;

json account(const std::string& model, const std::string& version) {
  return {{"weights", {{"model", "sha256:" + model}}},
          {"components", {{"model", {{"id", "model/dit"}, {"version", version}}}}}};
}

TEST(MadeWith, NamesWhatDiffers) {
  const json now = account("0123456789abcdef", "0.2.0");
  EXPECT_EQ(differences(now, now), "");
  EXPECT_EQ(differences(account("fedcba9876543210", "0.2.0"), now),
            "weights of model (sha256:fedcba987654, here sha256:0123456789ab)");
  EXPECT_EQ(differences(account("0123456789abcdef", "0.1.0"), now),
            "model (model/dit 0.1.0, here model/dit 0.2.0)");
  json more = now;
  more["weights"]["text"] = "sha256:00";
  EXPECT_EQ(differences(more, now), "weights of text (sha256:00, here none)");
}

TEST(MadeWith, SaysNothingOfWhatAnOldVideoDoesNotTell) {
  EXPECT_EQ(differences(json(), account("0", "1")), "");
  EXPECT_EQ(differences({{"seed", 3}}, account("0", "1")), "");
}

}  // namespace
}  // namespace kinora::core
