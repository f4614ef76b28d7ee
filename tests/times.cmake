# Sets the cost and the time limit of every test and splits some of them. The usual seconds are measured with two tests
# at a time on two cores; packaging/suite.py runs three. COST makes the long ones start first; TIMEOUT ends a hang after
# six times the usual seconds, at least two minutes: beside three busy loops a test takes three to four times as long.
#
# The list has the tests of 20 seconds and more: name, seconds. Any other test ends after two minutes. packaging/dev.sh
# test prints the ten slowest.
set(KINORA_TEST_SECONDS
  first 25 bench 72 curate_kill 60 command_line 60 networks 50 running 65 page_commands 20 curate 95 check 70 overfit 45
  configs 120 strangers 89 endpoint 110 sdk_template 110 s3_storage 82 torch_test 30 jobs_test.1 80 jobs_test.2 120
  jobs_test.3 90 jobs_ranks_test 140 loading 50 loading_source 5 pictures 8 loading_ranks 35 quick 60
  parallel_layouts_test 30 filters_oracle 73 rank_kill 95 studio 285 serve_page 80 serve 25 report 90 video_test 80
  serve_operation 30
  tokenizer_wan_test 80 engine_local_test 35 engine_local_test.alone 15 isolation 90 parallel_cfg_test 73 slurm 20
  collectives_gloo_test 25 collectives_gloo_test.alone 20 shots_oracle 92 come_and_go 47 upgrade 30
  video_stages_test 60 parallel_pp_test 35 quickstart 45 parallel_stdit_hybrid_test 31 workers_test 34
  workers_test.alone 15 parallel_fsdp_test 29 parallel_tp_test 27 parallel_balanced_sp_test 26 sdk_parallel 25
  parallel_cp_ring_test 23 dedup 23 plan 85 parallel_cp_ulysses_test 21 engine 80 installed 50 ranks_test 28
  parallel_pairs_test 130 parallel_memory_test 20 parallel_teacher_forcing_test 21 parallel_step_traffic_test 26
  bad_input 26 shared_curate 20 long_video_shots 32 abi_compilers 75 abi_growth 40 broken_plugins 40 other_hosts 30
  terminal 40)

# The slow tests: name, seconds. A share is what CI runs in one turn (packaging/suite.py, which checks that it fits into
# eleven minutes, two tests at a time): a new slow test goes to the share with the most room. Tests with both processors
# (PROCESSORS 2) take their time twice. Those that build from scratch are measured without a compiler cache.
set(KINORA_SLOW_SHARE_1 abi_libtorch_next 460 packages 70 cuts_oracle_all_1 120 rollout_rounds 75)
set(KINORA_SLOW_SHARE_2 abi_growth_host 460 cuts_oracle_all_5 150 long_video_time 90)
set(KINORA_SLOW_SHARE_3 sanitizers_asan_workers 300 bench_all 300 parallel_mutants_8 125 second_opinions 150)
set(KINORA_SLOW_SHARE_4 sanitizers_asan_jobs 300 run_kill_all 150 parallel_mutants_2 125 bare_root 300)
set(KINORA_SLOW_SHARE_5 sanitizers_tsan_workers 450 sanitizers_asan_video_stages 340 parallel_mutants_4 125
    hostile_corpus_all 60 data_time 60)
set(KINORA_SLOW_SHARE_6 sanitizers_asan_kernels 430 sanitizers_tsan_servers 260 shots_oracle_all_1 145
    parallel_mutants_6 125 cuts_oracle_all_2 90)
set(KINORA_SLOW_SHARE_7 sanitizers_asan_stages 430 curate_kill_all 260 shots_oracle_all_2 145 parallel_mutants_7 125
    cuts_oracle_all_3 90)
set(KINORA_SLOW_SHARE_8 sanitizers_tsan_stages 430 sanitizers_asan_shards 360 parallel_mutants_5 125
    select_time 60 page_pictures 75)
set(KINORA_SLOW_SHARE_9 shots_oracle_all_4 390 sanitizers_asan_core 380 parallel_mutants_3 125 copies 80
    cuts_oracle_all_4 90)
set(KINORA_SLOW_SHARE_10 sanitizers_asan_video 380 shots_oracle_all_3 360 parallel_mutants_1 125 sdk_template_kinds 120
    studio_speed 90)
set(KINORA_SLOW_SHARE_11 serve_load 300 slurm_daemons 225 serve_time 150 ray 460)
set(KINORA_SLOW_SHARE_12 shared_curate_many 300 many_inputs_all 200 many_inputs_most 200 ray_losses_all 100
    ray_more 300)
set(KINORA_SLOW_TEST_SECONDS)
foreach(share RANGE 1 12)
  list(APPEND KINORA_SLOW_TEST_SECONDS ${KINORA_SLOW_SHARE_${share}})
endforeach()

# Programs with many cases that run as several tests: name, number.
set(KINORA_SHARDED_TESTS jobs_test 3)

# Cases that measure time: the test NAME.alone runs them, and no other test runs at the same time. Name, GoogleTest's
# filter.
string(JOIN ":" lone_of_engine Dispatch.* Advice.* LocalEngine.StopsWithin100MillisecondsOfACancellation
  LocalEngine.ReportsWhatBoundsIt)
set(KINORA_LONE_TESTS
  engine_local_test ${lone_of_engine}
  endpoint_test Gate.*
  balance_test Balance.IsWithinOnePercentOfTheBound*
  collectives_gloo_test Gloo.AllRanksName*:Gloo.TwoLaunchesAtOnePlace*:Gloo.RanksOfOtherNumbers*
  workers_test Workers.AConstructorThatHangsIsSaid*:Workers.ASlowSampleThatLives*)

# The value after NAME in a list of pairs, else the default.
function(kinora_of_test name list_name default out)
  list(FIND ${list_name} ${name} at)
  if(at LESS 0)
    set(${out} "${default}" PARENT_SCOPE)
  else()
    math(EXPR at "${at} + 1")
    list(GET ${list_name} ${at} value)
    set(${out} "${value}" PARENT_SCOPE)
  endif()
endfunction()

# Sets the cost of a test; must follow every add_test().
function(kinora_time_test name)
  set(pairs ${KINORA_TEST_SECONDS} ${KINORA_SLOW_TEST_SECONDS})
  kinora_of_test(${name} pairs 0 seconds)
  math(EXPR timeout "6 * ${seconds}")
  if(timeout LESS 120)
    set(timeout 120)
  endif()
  if(KINORA_SANITIZE)
    math(EXPR timeout "10 * ${timeout}")
  endif()
  set_tests_properties(${name} PROPERTIES COST ${seconds} TIMEOUT ${timeout})
  foreach(share RANGE 1 12)
    if(name IN_LIST KINORA_SLOW_SHARE_${share})
      set_property(TEST ${name} APPEND PROPERTY LABELS share-${share})
    endif()
  endforeach()
endfunction()

# Adds a GoogleTest program as one test, or as several according to the lists above.
function(kinora_add_cases name labels)
  kinora_of_test(${name} KINORA_SHARDED_TESTS 1 shards)
  kinora_of_test(${name} KINORA_LONE_TESTS "" lone)
  set(environment "KINORA_PLUGIN_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/kinora/plugins"
      "KINORA_ASSETS=${CMAKE_SOURCE_DIR}/.deps/assets")
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    set(part)
    if(shards GREATER 1)
      set(test ${name}.${shard})
      math(EXPR index "${shard} - 1")
      set(part GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
    endif()
    if(lone)
      list(APPEND part GTEST_FILTER=-${lone})
    endif()
    kinora_add_part(${test} ${name} "${labels}" "${environment};${part}")
  endforeach()
  if(lone)
    kinora_add_part(${name}.alone ${name} "${labels}" "${environment};GTEST_FILTER=${lone}")
    set_tests_properties(${name}.alone PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

function(kinora_add_part test program labels environment)
  add_test(NAME ${test} COMMAND ${program})
  set_tests_properties(${test} PROPERTIES LABELS "${labels}" ENVIRONMENT "${environment}"
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+$")
  kinora_time_test(${test})
endfunction()
