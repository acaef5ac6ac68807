//! One suite, every store: what the trait promises is kept by memory under virtual time and by DynamoDB, SQS and S3.

use longhaul_tests::for_each_scenario;

macro_rules! on_sim {
    ($($module:ident::$scenario:ident,)*) => {
        /// Memory under virtual time.
        mod sim {
            use longhaul_tests::conformance;
            use longhaul_tests::stage::{SimStage, Stage};
            $(#[tokio::test(start_paused = true)]
            async fn $scenario() {
                let stage = SimStage::set_up().await;
                Box::pin(conformance::$module::$scenario(&stage)).await;
            })*
        }
    };
}

macro_rules! on_aws {
    ($($module:ident::$scenario:ident,)*) => {
        /// DynamoDB, SQS and S3 of the embedded stack, through the AWS SDKs.
        mod aws {
            use longhaul_tests::conformance;
            use longhaul_tests::stage::{AwsStage, Stage};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let stage = Box::pin(AwsStage::set_up()).await;
                Box::pin(conformance::$module::$scenario(&stage)).await;
            })*
        }
    };
}

for_each_scenario!(on_sim);
for_each_scenario!(on_aws);
