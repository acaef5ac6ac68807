/** uPlot with its style, in a file of their own: only the dashboard needs them. */
import "uplot/dist/uPlot.min.css";
export { default } from "uplot";
