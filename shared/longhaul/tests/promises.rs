//! The four promises that the compiler keeps for authors, see DESIGN section 5. Each file must fail to compile, for
//! the reason that stands in its `.stderr`.

#[test]
fn misuse_of_the_context_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/promises/an_ordinary_agent.rs");
    cases.compile_fail("tests/promises/a_durable_call_inside_a_step.rs");
    cases.compile_fail("tests/promises/two_operations_in_flight.rs");
    cases.compile_fail("tests/promises/the_parents_context_in_a_branch.rs");
    cases.compile_fail("tests/promises/a_step_that_changes_captured_state.rs");
}
