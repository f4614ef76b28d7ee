#include "core/runtime/place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using Table = std::map<std::string, std::string>;

Variables reading(const Table& table) {
  return [&](const char* name) {
    const auto it = table.find(name);
    return it == table.end() ? std::string() : it->second;
  };
}

Table with(Table table, const Table& more) {
  for (const auto& [name, value] : more) table[name] = value;
  return table;
}

// Variables that sbatch sets for its script, and srun for its task 5 of 8 on two nodes.
const Table kScript{{"ENVIRONMENT", "BATCH"},
                    {"SLURM_JOB_ID", "4711"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_NODEID", "0"},
                    {"SLURM_JOB_NODELIST", "gpu[007-008]"}};
const Table kTask = with(kScript, {{"SLURM_STEP_ID", "2"},
                                   {"SLURM_STEP_NUM_TASKS", "8"},
                                   {"SLURM_STEP_NODELIST", "gpu[007-008]"},
                                   {"SLURM_PROCID", "5"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "1"}});
const Table kTorchrun{
    {"RANK", "3"},       {"WORLD_SIZE", "4"},   {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "1"}, {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "1234"}};
const Table kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

TEST(Place, IsWhatTheLauncherSays) {
  const struct {
    const char* what;
    Table table;
    int64_t rank, world, local, node;
    const char* rendezvous;
  } cases[] = {
      {"no launcher", {}, 0, 1, 0, 0, ""},
      {"by hand", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, 1, 2, 1, 0, "tcp://127.0.0.1:29500"},
      {"torchrun", kTorchrun, 3, 4, 1, 1, "tcp://h0:1234"},
      {"torchrun that serves the store",
       with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}), 3, 4,
       1, 1, "store://h0:1234/attempt-2"},
      {"nodes from the ranks of one",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "h0"}},
       5,
       8,
       1,
       1,
       "tcp://h0:29500"},
      {"kinora launch",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"KINORA_RENDEZVOUS", "file:///tmp/x"}},
       1,
       2,
       1,
       0,
       "file:///tmp/x"},
      {"one rank needs no meeting",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "h"}},
       0,
       1,
       0,
       0,
       ""},
      {"srun", kTask, 5, 8, 1, 1, "tcp://gpu007:16043"},
      {"a second step of the job", with(kTask, {{"SLURM_STEP_ID", "3"}}), 5, 8, 1, 1, "tcp://gpu007:16044"},
      {"a step of one node needs no network", with(kTask, {{"SLURM_STEP_NUM_NODES", "1"}}), 5, 8, 1, 1,
       "tcp://127.0.0.1:16043"},
      {"a requeued job shares no port with the attempt before", with(kTask, {{"SLURM_RESTART_COUNT", "1"}}),
       5, 8, 1, 1, "tcp://gpu007:17052"},
      {"a step of fewer tasks than the job", with(kTask, {{"SLURM_STEP_NUM_TASKS", "6"}}), 5, 6, 1, 1,
       "tcp://gpu007:16043"},
      {"an old srun",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "n1,n2"}, {"SLURM_JOB_ID", "1"}},
       0,
       2,
       0,
       0,
       "tcp://n1:10031"},
      {"srun and a chosen address", with(kTask, {{"MASTER_ADDR", "ib0"}, {"MASTER_PORT", "7"}}), 5, 8, 1, 1,
       "tcp://ib0:7"},
      {"the batch script", kScript, 0, 1, 0, 0, ""},
      {"a shell of salloc", {{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "8"}}, 0, 1, 0, 0, ""},
      {"an interactive step", with(kScript, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
       0, 1, 0, 0, ""},
      {"torchrun in a step of one task a node", with(kTask, kTorchrun), 3, 4, 1, 1, "tcp://h0:1234"},
      {"Open MPI", kOpenMpi, 1, 2, 1, 0, "tcp://127.0.0.1:29500"},
      {"mpirun in a batch script", with(kScript, kOpenMpi), 1, 2, 1, 0, "tcp://127.0.0.1:29500"},
      {"MPICH",
       {{"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"},
        {"MASTER_ADDR", "h1"}},
       3,
       4,
       1,
       1,
       "tcp://h1:29500"},
  };
  for (const auto& c : cases) {
    const auto place = place_of(reading(c.table));
    ASSERT_TRUE(place) << c.what << ": " << place.failure().message;
    EXPECT_EQ(place->rank, c.rank) << c.what;
    EXPECT_EQ(place->world, c.world) << c.what;
    EXPECT_EQ(place->local_rank, c.local) << c.what;
    EXPECT_EQ(place->node, c.node) << c.what;
    EXPECT_EQ(place->rendezvous, c.rendezvous) << c.what;
    EXPECT_EQ(place->alone(), c.world == 1) << c.what;
  }
}

TEST(Place, RefusesContradictions) {
  const struct {
    Table table;
    const char* part;
  } cases[] = {
      {{{"RANK", "1"}}, "RANK is set and WORLD_SIZE is not"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set and RANK is not"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 is outside WORLD_SIZE=2: ranks are 0 to 1"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK=-1 is not an integer"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "two"}}, "WORLD_SIZE=two is not an integer"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "RANK=0 is outside WORLD_SIZE=0"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_RANK=2 is outside"},
      {with(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT=70000 is not a port"},
      {with(kTorchrun, {{"KINORA_TIMEOUT_MS", "0"}}), "KINORA_TIMEOUT_MS=0 is not a time limit"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_RANK is set and OMPI_COMM_WORLD_SIZE is not"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}}),
       "there are 4 ranks, 2 of them on this node, and MASTER_ADDR"},
      {{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}},
       "there are 8 ranks, 4 of them on this node, and MASTER_ADDR is not set; pass the host of rank 0"},
      {with(kTask, {{"SLURM_PROCID", "8"}}), "SLURM_PROCID=8 is outside the 8 tasks"},
      {{{"SLURM_PROCID", "0"}}, "SLURM_NTASKS is not"},
  };
  for (const auto& c : cases) {
    const auto place = place_of(reading(c.table));
    ASSERT_FALSE(place) << c.part;
    EXPECT_EQ(place.failure().code, KINORA_ERROR_INVALID);
    EXPECT_THAT(place.failure().message, testing::HasSubstr(c.part));
  }
}

TEST(Place, SaysThatAJobOfManyTasksRunsOnOne) {
  EXPECT_THAT(place_of(reading(kScript))->remark, testing::HasSubstr("has 8 tasks"));
  EXPECT_EQ(place_of(reading(kTask))->remark, "");
  EXPECT_EQ(place_of(reading({}))->remark, "");
}

TEST(Place, SaysWhereRanksMeetThatNobodyGaveAHost) {
  const Table by_hand{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_THAT(place_of(reading(by_hand))->remark, testing::HasSubstr("the ranks meet at 127.0.0.1"));
  for (const Table& told : {Table{{"MASTER_ADDR", "h0"}}, Table{{"KINORA_RENDEZVOUS", "file:///tmp/x"}},
                            Table{{"LOCAL_WORLD_SIZE", "2"}}, Table{{"RANK", "0"}, {"WORLD_SIZE", "1"}}})
    EXPECT_EQ(place_of(reading(with(by_hand, told)))->remark, "");
}

TEST(Place, TakesTheTimeLimitOfAnyLauncher) {
  EXPECT_EQ(place_of(reading(with(kTask, {{"KINORA_TIMEOUT_MS", "2500"}})))->timeout_ms, 2500);
  EXPECT_EQ(place_of(reading(kTask))->timeout_ms, 600000);
}

TEST(Place, KnowsTheSlurmJobAndItsAttempt) {
  const Table requeued{{"SLURM_RESTART_COUNT", "2"}, {"SLURM_CLUSTER_NAME", "mine"}};
  for (const Table& of : {kTask, kScript, with(kTask, kTorchrun), with(kScript, kOpenMpi)}) {
    EXPECT_EQ(place_of(reading(of))->job, "4711");
    const auto place = place_of(reading(with(of, requeued)));
    EXPECT_EQ(place->job, "mine/4711");
    EXPECT_EQ(place->requeues, 2);
    EXPECT_EQ(place->restart, 2) << "it continues, whatever --from-scratch says";
  }
  EXPECT_EQ(place_of(reading({}))->job, "");
}

TEST(Place, NamesTheNodeThatMustBeKnown) {
  EXPECT_EQ(place_of(reading(kTask))->node_name, "gpu007");
  for (const Table& told :
       {Table{{"MASTER_ADDR", "ib0"}}, Table{{"KINORA_RENDEZVOUS", "file:///tmp/x"}},
        Table{{"SLURM_STEP_NUM_NODES", "1"}}, Table{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}})
    EXPECT_EQ(place_of(reading(with(kTask, told)))->node_name, "");
}

TEST(Place, OfALaunchThatIsOnlyAskedFor) {
  EXPECT_EQ(*ranks_of(reading({{"WORLD_SIZE", "8"}})), 8);
  EXPECT_EQ(*ranks_of(reading(kTask)), 8);
  EXPECT_EQ(*ranks_of(reading({{"WORLD_SIZE", "1"}})), 1);
  EXPECT_EQ(*ranks_of(reading({})), 0) << "no variable is set";
  EXPECT_EQ(*ranks_of(reading(kScript)), 0);
  EXPECT_FALSE(ranks_of(reading({{"RANK", "8"}})));
}

TEST(FirstHost, OfSlurmsLists) {
  const std::pair<const char*, const char*> cases[] = {{"node1", "node1"},
                                                       {"node1,node2", "node1"},
                                                       {"node[003-005,9]", "node003"},
                                                       {"node[9,003-005]", "node9"},
                                                       {"gpu[01-04]-ib,login", "gpu01-ib"},
                                                       {"r[1-2]n[0-3]", "r1n0"},
                                                       {"", ""},
                                                       {"a[1", "a1"}};
  for (const auto& [list, first] : cases) EXPECT_EQ(first_host(list), first) << list;
}

}  // namespace
}  // namespace kinora::core
